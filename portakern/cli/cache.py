"""``portakern cache``: how large the cache is, and making it smaller."""

from __future__ import annotations

import argparse

from portakern import cache
from portakern.cli import options
from portakern.errors import UsageError
from portakern.study.command_schema import stamped
from portakern.study.layout import table
from portakern.study.table import bytes_text
from portakern.tools import limits
from portakern.tools.cache import default_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["size", "prune"], help="say how large it is, or remove what is beyond the limits")
    parser.add_argument("--size", metavar="S", help="prune: keep at most this, as 500MB or 2GB (default PORTAKERN_CACHE_SIZE, "
                                                    f"else {limits.SIZE})")  # fmt: skip
    parser.add_argument("--age", metavar="T", help="prune: remove what was not used for this long, as 12h, 30d or 8w (default "
                                                   f"PORTAKERN_CACHE_AGE, else {limits.AGE})")  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="prune: say what would be removed, and remove nothing")
    options.add_output(parser)
    options.add_schema(parser, "cache")


def run(args: argparse.Namespace) -> int:
    directory = default_directory()
    asked = cache.asked(args.size, args.age)
    if args.action == "size":
        if args.size is not None or args.age is not None or args.dry_run:
            raise UsageError("cache size only looks", hint="portakern cache prune removes")
        found = cache.size()
        told = {"directory": str(directory), "size": asked.size, "age_s": asked.age_s,
                "kinds": {k: {"pieces": n, "bytes": size} for k, (n, size) in found.items()}}  # fmt: skip
        shown = f"{directory}\n{size_text(found, asked)}"
    else:
        done = cache.prune(args.size, args.age, args.dry_run)
        told = {"directory": str(directory), "removed": done.removed, "removed_bytes": done.removed_bytes, "left": done.left,
                "left_bytes": done.left_bytes}  # fmt: skip
        did = "would be" if args.dry_run else "were"
        shown = (f"{directory}: {done.removed} pieces of {bytes_text(done.removed_bytes)} {did} removed, "
                 f"{done.left} of {bytes_text(done.left_bytes)} are left")  # fmt: skip
    if args.json is not None:
        options.print_json(stamped("cache", told), args.json)
    if args.json != "-":
        options.show(shown)
    return 0


def size_text(found: dict[str, tuple[int, int]], asked: limits.Limits) -> str:
    rows = [["", "pieces", "size"], *([kind, str(n), bytes_text(size)] for kind, (n, size) in found.items())]
    rows.append(["in all", str(sum(n for n, _ in found.values())), bytes_text(sum(size for _, size in found.values()))])
    size = "no limit" if asked.size is None else bytes_text(asked.size)
    age = "no limit" if asked.age_s is None else f"{asked.age_s / 86400:g} days"
    return f"{table(rows)}\nlimits: {size} (PORTAKERN_CACHE_SIZE), {age} since it was last used (PORTAKERN_CACHE_AGE)"
