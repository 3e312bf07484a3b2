"""``portakern completion``: what a shell needs to complete commands and options, made of the commands' own parsers."""

from __future__ import annotations

import argparse
import shlex

from portakern.spec.load import operator_names

SHELLS = ("bash", "zsh", "fish")

_BASH = """_portakern() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=""
    if (( COMP_CWORD == 1 )); then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}} $before" in
{choices}
        *) case "${{COMP_WORDS[1]}}" in
{options}
        esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _portakern portakern
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](), end="")
    return 0


def parsers() -> dict[str, argparse.ArgumentParser]:
    from portakern.cli import COMMANDS, command, parser_of

    return {name: parser_of(name, command(name)) for name in COMMANDS}


def first_words(name: str, parser: argparse.ArgumentParser) -> list[str]:
    """What may stand first behind a command: choices, or operators of the library."""
    words: list[str] = []
    for action in parser._actions:
        if not action.option_strings:
            words += [str(c) for c in action.choices or ()]
            words += operator_names() if action.dest == "operator" else ()
    return words


def bash() -> str:
    options, choices = [], []
    for name, parser in parsers().items():
        words = [o for a in parser._actions for o in a.option_strings] + first_words(name, parser)
        options.append(f"        {name}) words={shlex.quote(' '.join(words))} ;;")
        for action in parser._actions:
            if action.option_strings and action.choices:
                patterns = "|".join(f"'{name} {o}'" for o in action.option_strings)
                choices.append(f"        {patterns}) words={shlex.quote(' '.join(map(str, action.choices)))} ;;")
    return _BASH.format(commands=" ".join(parsers()), options="\n".join(options), choices="\n".join(choices))


def zsh() -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash()


def fish() -> str:
    from portakern.cli import COMMANDS

    lines = ["complete -c portakern -e"]
    for name, parser in parsers().items():
        here = f"-n '__fish_seen_subcommand_from {name}'"
        lines.append(f"complete -c portakern -n __fish_use_subcommand -f -a {name} -d {_quoted(COMMANDS[name])}")
        if words := first_words(name, parser):
            lines.append(f"complete -c portakern {here} -a {_quoted(' '.join(words))}")
        for action in parser._actions:
            flags = " ".join(f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}" for o in action.option_strings)
            if flags:
                takes = f" -x -a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
                said = _quoted((action.help or "").replace("%%", "%").partition(";")[0].partition(":")[0])
                lines.append(f"complete -c portakern {here} {flags}{takes} -d {said}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """In single quotes, as fish reads them."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
