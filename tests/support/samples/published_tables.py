"""Small tables with the columns of published ones; all numbers are made up."""

COLLECTIVES = """system,gpus,nodes,collective,algorithm,bytes,time_us,busbw_GBps,source
8x A100 NVLink3,8,1,all_reduce,,1048576,50,,made up
8x A100 NVLink3,8,1,all_reduce,,1073741824,9000,,made up
8x A100 NVLink3,8,1,all_gather,Ring,1073741824,,200,made up
H200 NVLink4,8,1,all_reduce,NVLS,8589934592,,400,made up
H200 NVLink4,8,1,all_reduce,Ring (NVLS off),8589934592,,300,made up
"DGX A100, 8x200 Gb IB",16,2,all_reduce,,large,,150,made up
8x Voodoo 5,8,1,all_reduce,,1048576,50,,made up
8x A100 NVLink3,8,1,all_reduce,NVLS,1048576,50,,made up
8x A100 NVLink3,8,1,all_reduce,Butterfly,1048576,50,,made up
8x A100 NVLink3,8,1,all_reduce,,some,50,,made up
8x A100 NVLink3,8,1,all_reduce,,1024,,fast,made up
8x A100 NVLink3,8,1,all_together,,1024,5,,made up
64x A100,64,1,all_reduce,,1024,5,,made up
"""
VTRAIN = """# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,\
tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)
1,8,8,2048,16,12,1024,1,1,1,500
8,16,2,2048,16,12,1024,1,8,1,150
16,16,1,2048,16,12,1024,1,16,1,150
2,8,1,1024,16,12,1024,2,1,1,300
4,16,2,2048,16,12,1024,3,1,1,150
4,10,2,2048,16,12,1024,1,4,1,150
2,8,1,1024,16,12,1024,2,1,1,unknown
"""
