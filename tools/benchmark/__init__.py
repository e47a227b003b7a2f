"""The benchmark of depth remedies: methods trained with equal budgets on several sets and depths.

``definition`` has the methods, sets and settings, ``records`` one line for each training,
``running`` trains what is missing, and ``page`` makes the tables of docs/benchmark.md.
"""
