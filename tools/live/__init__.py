"""The built book with cells that run: ``python -m tools.live``.

One Jupyter server on loopback serves the pages and the kernels, so that a page talks to its own
origin alone. `server` hands out the pages, with a script tag that the built files do not have;
`scripts/` makes their cells editable and runs them in a kernel of the page, over the Jupyter
server's REST interface and its WebSocket; `needs` finds the cells that an answer to an exercise
needs. Kernels work in a reader's folder (`tools.readers`).
"""
