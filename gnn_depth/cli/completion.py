"""``gnn-depth completion``: the TAB key, for bash and zsh."""

import os

from gnn_depth.cli.completions import answers
from gnn_depth.cli.options import Options

# Both ask the program for the words that may stand there; where it knows none, the shell completes names of files.
SCRIPTS = {
    "bash": """\
_gnn_depth() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion answer "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gnn_depth gnn-depth
""",
    "zsh": """\
_gnn_depth() {
    local -a answers
    answers=("${(@f)$("${words[1]}" completion answer "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${answers[1]}" ]]; then
        compadd -- "${answers[@]}"
    else
        _files
    fi
}
compdef _gnn_depth gnn-depth
""",
}


def main(words: list[str]) -> int:
    """Print the script of a shell, or, to that script, the words that may stand at the cursor.

    Raises:
        UsageError: There is no such shell.
    """
    if words[:1] == ["answer"]:
        print("\n".join(_quietly(words[1:])))
        return 0
    print(SCRIPTS[_parser().parse_args(words).shell], end="")
    return 0


def _parser() -> Options:
    options = Options(
        "completion",
        "Print a script that completes words at the TAB key. In ~/.bashrc or ~/.zshrc: "
        'eval "$(gnn-depth completion bash)", or zsh.',
        "bash | zsh",
    )
    options.add_argument("shell", choices=tuple(SCRIPTS), help="which shell")
    return options


def _quietly(words: list[str]) -> list[str]:
    """Whatever is wrong with a line, the TAB key is no place to say it."""
    try:
        return answers(words)
    except Exception:
        if os.environ.get("GNN_DEPTH_TRACEBACK"):
            raise
        return []
