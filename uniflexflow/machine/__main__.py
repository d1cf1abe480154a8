"""``python -m uniflexflow.machine``: what was found out and what was chosen.

``tune`` measures block sizes on this machine and stores those that win clearly.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from uniflexflow.machine.detect import host
from uniflexflow.machine.report import show_config


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m uniflexflow.machine", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    command = commands.add_parser("tune", help="measure block sizes here and store them")
    command.add_argument("--quick", action="store_true", help="fewer shapes and rounds")
    either = command.add_mutually_exclusive_group()
    either.add_argument("--dry-run", action="store_true", help="store nothing")
    either.add_argument("--forget", action="store_true", help="remove what is stored")
    args = parser.parse_args(argv)
    if args.command == "tune":
        _tune(args)
        return
    show_config()
    print(f"\n# the machine, as block sizes are computed from it\n{host()}", end="")


def _tune(args: argparse.Namespace) -> None:
    from uniflexflow._core import dispatch
    from uniflexflow.machine import blocks, stored, tune

    kernels = dispatch.selected()
    path = stored.path_of(host(), kernels)
    if path is None and not args.dry_run:
        raise SystemExit(
            "tune: there is no folder for the sizes: UNIFLEXFLOW_TUNED is 'off', or this user has "
            "no home. Set UNIFLEXFLOW_TUNED to a folder, or use --dry-run."
        )
    if args.forget:
        path.unlink(missing_ok=True)
        print(f"{path} is removed: block sizes are computed.")
        return
    sizes = tune.tune(args.quick)
    if args.dry_run:
        print(f"would be stored: {sizes or 'nothing, the computed sizes are best'}")
        return
    path = stored.save(host(), kernels, sizes)
    blocks.forget()
    print(f"{path}\nblock sizes: {blocks.source(kernels)}")


if __name__ == "__main__":
    main()
