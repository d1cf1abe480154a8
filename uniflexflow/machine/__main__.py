"""``python -m uniflexflow.machine``: what was found out and what was chosen."""

from uniflexflow.machine.detect import host
from uniflexflow.machine.report import show_config

if __name__ == "__main__":
    show_config()
    print(f"\n# the machine, as block sizes are computed from it\n{host()}", end="")
