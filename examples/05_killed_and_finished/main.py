"""Killed half-way, finished by another process.

An agent books a trip. It has paid for the flight, and it has just paid for the hotel, when its
process is killed, without a warning: SIGKILL, as when the machine runs out of memory. A second
process opens the same file and goes on.

What you will see:

- the first action, which was over, is not run again: its flight is not paid twice;
- the second action begins anew, for what it had written was not committed. But the payment was a
  *durable call*: its result was stored before the action went on, so the hotel is not paid twice
  either, and the new attempt holds the receipt of the old one;
- sensory memory, which is for one run only, is there again for the rest of the run;
- what the dead action had written to its memories is there once, not twice;
- both processes submitted the same event: it is one run, with one output.

One gap is left, as everywhere: if the process dies inside the payment itself, nobody knows whether
the world took it. Then `pay` is called again, or a reconciler is asked: `durable(reconcile=…)`.

    python main.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from alveus import LocalRunner, Memory
from trip import Trip


def work(folder: Path, *, dawdles: bool) -> None:
    """Be one process: submit the order, and do what is to be done."""
    order = {"city": "Lisbon", "ledger": str(folder / "ledger.txt")}
    with (
        Memory.open(folder / "trips.db") as memory,
        LocalRunner(Trip(dawdles=dawdles), memory) as runner,
    ):
        runner.submit("ada", order, event_id="order-991")
        runner.run_until_idle()
        for output in runner.outputs(consumer="travel desk"):
            print(f"  the travel desk reads: {output.value}", flush=True)


def main(folder: Path) -> None:
    """Start a process, kill it, start another one, and show what is left."""
    print("the first process", flush=True)
    command = [sys.executable, __file__, str(folder)]
    with subprocess.Popen([*command, "dawdle"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        for line in first.stdout:
            print(line, end="", flush=True)
            if "dawdles" in line:
                first.kill()
                print("  … and is killed", flush=True)
    print("the second process", flush=True)
    subprocess.run(command, check=True)
    print("what is left")
    paid = (folder / "ledger.txt").read_text(encoding="utf-8").splitlines()
    print(f"  payments: {', '.join(paid)}")
    with Memory.open(folder / "trips.db", mode="ro") as memory:
        ada = memory.key("ada")
        print(f"  receipts: {', '.join(ada.short_term.get('receipts'))}")
        print(f"  trips:    {', '.join(item.text or '' for item in ada.set('trips'))}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]), dawdles=sys.argv[2:] == ["dawdle"])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
