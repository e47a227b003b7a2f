"""Convert docstrings to plain text for a terminal, without reStructuredText's formulas and
cross-references."""

# ruff: noqa: RUF001 (signs that look like letters are meant)
import re
import textwrap
from re import Match

FORMULA = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*|[ ]*(?=\n\1 +\S)))*)", re.MULTILINE)
ROLE = re.compile(r":(math|class|func|meth|mod|attr):`~?([^`]+)`")
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ",
    "pi": "π", "rho": "ρ", "sigma": "σ", "phi": "φ", "omega": "ω", "nabla": "∇", "partial": "∂",
    "sum": "∑", "in": "∈", "cup": "∪", "cdot": "·", "odot": "⊙", "circ": "∘", "top": "ᵀ", "times": "×", "dots": "…",
    "le": "≤", "ge": "≥", "ne": "≠", "equiv": "≡", "to": "→", "leftarrow": "←",
    "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋",
    "max": "max", "min": "min", "log": "log", "exp": "exp", "bmod": "mod", "sqrt": "sqrt",
    "sin": "sin", "cos": "cos", "sim": "∼", "pm": "±",
    "big": "", "Big": "", "left": "", "right": "", "quad": "\2", "qquad": "\2",
}  # fmt: skip
ABOVE = {
    "tilde": "\N{COMBINING TILDE}",
    "dot": "\N{COMBINING DOT ABOVE}",
    "bar": "\N{COMBINING MACRON}",
}
# Braces that are to be seen, \0 and \1, come back once groups are gone, and wide spaces, \2, once
# narrow ones are.
SIGNS = {r"\,": " ", r"\;": " ", r"\|": "‖", "~": " ", r"\{": "\0", r"\}": "\1"}
# Groups without braces inside, and what is left of them; the innermost go first.
GROUPS = (
    (re.compile(r"\\(?:mathrm|mathop|text)\{([^{}]*)\}"), lambda found: found[1]),
    (
        re.compile(r"\\t?frac\{([^{}]*)\}\{([^{}]*)\}"),
        lambda found: f"{_closed(found[1])} / {_closed(found[2])}",
    ),
    (re.compile(r"\\sqrt\{([^{}]*)\}"), lambda found: f"sqrt({found[1]})"),
    (re.compile(r"([_^])\{([^{}]*)\}"), lambda found: found[1] + _closed(found[2])),
)
WHOLE = re.compile(r"[\w.:'\\^]*|[-+]?\w+|sqrt\([^()]*\)")  # what needs no brackets


def plain(text: str) -> str:
    """A docstring without directives, roles and LaTeX."""
    return ROLE.sub(_role, FORMULA.sub(_block, text)).replace("``", "`")


def _block(found: Match[str]) -> str:
    lines = textwrap.dedent(found[2].strip()).splitlines()
    return "\n".join(f"{found[1]}    {formula(line)}" for line in lines if line.strip())


def _role(found: Match[str]) -> str:
    role, text = found.groups()
    return formula(text) if role == "math" else text.rpartition(".")[2]


def formula(latex: str) -> str:
    """LaTeX as plain text: ``(x_i - μ_i) / sqrt(σ_i^2 + ε)``; unknown commands stay."""
    for sign, shown in SIGNS.items():
        latex = latex.replace(sign, shown)
    latex = re.sub(r"\\tfrac\s*(\w)(\w)", r"\1/\2", latex)
    latex = re.sub(
        rf"\\({'|'.join(ABOVE)})\s*(\w)", lambda found: found[2] + ABOVE[found[1]], latex
    )
    before = None
    while before != latex:
        before = latex
        for group, left in GROUPS:
            latex = group.sub(left, latex)
    latex = re.sub(r"\\([A-Za-z]+)", lambda found: SYMBOLS.get(found[1], found[0]), latex).replace(
        "^ᵀ", "ᵀ"
    )
    latex = re.sub(r"(?<=[(\[]) +| +(?=[)\]])", "", re.sub(" +", " ", latex))
    return re.sub(" *\2 *", "   ", latex).replace("\0", "{").replace("\1", "}").strip()


def _closed(text: str) -> str:
    return text if WHOLE.fullmatch(text) else f"({text})"
