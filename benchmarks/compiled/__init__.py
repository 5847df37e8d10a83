"""Published measurements of one program, eager and compiled, beside what `simgpu run` says of it.

``pairs.csv`` has the measurements with their sources, `programs` the programs, written anew. Start
with `pairs`; ``python -m benchmarks.compiled`` runs all of them and writes the record that the page
on trust reads (`record`). What is compared is the ratio, eager over compiled. Nothing was fitted to
it, but these rows were looked at while compiled code was built.
"""
