"""The notebooks that readers open, built from the sources in chapters/.

``python -m tools.readers`` writes them to ``_build/notebooks/``. The sources are notebooks with
MyST's markup, which JupyterLab, VS Code, Colab and Kaggle do not know. Start reading at `build`:
`book` knows the pages and what they can be referred to by, `markup` turns a page's text into plain
Markdown, `cells` folds and completes its cells, `covered` hides what answers a guess, `pictures`
draws timelines as PNG, `sources` writes citations, `place` keeps what a reader has changed,
`downloads` is what the book's pages offer.
"""
