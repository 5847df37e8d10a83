"""Buttons that open a chapter in Colab, Binder or a JupyterHub: only where the book has an address.

``repository.url`` in ``_config.yml`` is the address, ``launch_buttons`` says which buttons.
"""


def choose(app, config):
    """Drop the buttons that lead nowhere."""
    options = config.html_theme_options
    address = options.get("repository_url")
    if not address:
        options.pop("launch_buttons", None)
    elif "github.com/" not in address and options.get("launch_buttons"):
        options["launch_buttons"] = {**options["launch_buttons"], "colab_url": ""}  # knows no other


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", choose)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
