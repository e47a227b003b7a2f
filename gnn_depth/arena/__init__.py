"""The arena: remedies for depth, trained alike on several sets and depths, and compared.

``definition`` says what is compared, ``running`` trains it, ``records`` keeps one line for every
training, ``statistics`` compares, and ``arena_page`` and ``court_page`` write what was found.
"""
