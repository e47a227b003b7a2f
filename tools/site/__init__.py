"""What MkDocs calls while it builds the documentation: formulas, docstrings and the command line's
own words."""
