"""`make bench`: what an item costs on this machine, beside a calibration loop that tells how fast it is.

Exit codes: 0 done; 1 a figure is over its limit, or far over its budget; 2 bad arguments; 3 a part failed.
"""

import argparse
import dataclasses
import json
import os
import platform
import sys
import time
from pathlib import Path

import grpc
from benchmarks import budgets, growth, idle, mixed, parts
from benchmarks.calibration import REFERENCE_MS
from benchmarks.measuring import SERVER, Figure

BUILD = Path(__file__).resolve().parents[2] / "build"
SYNCS = 200
OVER_LIMIT, PART_FAILED = 1, 3
QUICK = ("growth", "idle", "node")
QUICK_SIZES, QUICK_QUEUES = (growth.DEFAULT[0],), (20_000,)


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join(parts.NAMES)}; default: all but mixed",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument(
        "--dir",
        type=Path,
        default=BUILD,
        metavar="DIR",
        help="where stores are made, on the disk to measure (default: build/)",
    )
    parser.add_argument(
        "--size",
        type=_size,
        action="append",
        metavar="URIS:QUEUES",
        help="how much the frontier holds in part growth; repeatable. Part durability has the first",
    )
    parser.add_argument(
        "--queues", type=_count, action="append", metavar="N", help="how many rest in part idle; repeatable"
    )
    parser.add_argument(
        "--minutes", type=_minutes, default=mixed.DEFAULT_MIN, metavar="N", help="how long part mixed takes"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{', '.join(QUICK)} in two minutes, at the sizes of budgets.toml, which alone has the limits",
    )
    given = parser.parse_args()
    for part in given.parts:
        if part not in parts.NAMES:
            parser.error(f"there is no part {part!r}; there are {', '.join(parts.NAMES)}")
    usual_sizes, usual_queues = (QUICK_SIZES, QUICK_QUEUES) if given.quick else (growth.DEFAULT, idle.DEFAULT)
    sizes, queues = given.size or usual_sizes, given.queues or usual_queues
    given.dir.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "sync_ms": _sync_ms(given.dir),
    }
    print(
        f"Python {machine['python']}, {machine['system']}, {machine['cores']} cores; "
        f"the disk makes 20 kB durable in {machine['sync_ms']:.2f} ms. CPU in µs an item; "
        f"at {REFERENCE_MS:.0f} ms: where the loop takes that long.\n\n{_HEADER}"
    )
    figures: list[Figure] = []
    for part in given.parts or (QUICK if given.quick else parts.USUAL):
        try:
            for figure in parts.run(part, given.dir, sizes, queues, given.minutes):
                figures.append(figure)
                print(_row(figure), flush=True)
        except (RuntimeError, grpc.RpcError) as problem:
            print(f"bench.py: {part}: {problem}", file=sys.stderr)
            return PART_FAILED
    if given.json:
        content = {
            "machine": machine,
            "figures": [
                dataclasses.asdict(figure) | {"server_us_scaled": figure.scaled_us(SERVER)}
                for figure in figures
            ],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n")
    known = budgets.budgets()
    limits = [limit for figure in figures for limit in budgets.limits(figure, known)]
    if not given.quick:
        limits += [figure.limit for figure in figures if figure.limit is not None]
    for limit in limits:
        met = "met" if limit.met else "NOT MET"
        digits = 2 if limit.most >= 0.1 else 4
        print(f"\n{limit.value:.{digits}f} {limit.words}; at most {limit.most:g}: {met}.")
    return 0 if all(limit.met for limit in limits) else OVER_LIMIT


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"must be a positive whole number, got {text!r}")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not mixed.LEAST_MIN <= minutes <= mixed.MOST_MIN:
        raise argparse.ArgumentTypeError(
            f"must be between {mixed.LEAST_MIN:g} and {mixed.MOST_MIN:g}, got {text!r}"
        )
    return minutes


def _size(text: str) -> growth.Size:
    uris, colon, queues = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"must be URIS:QUEUES, such as 1000000:50000, got {text!r}")
    size = growth.Size(_count(uris), _count(queues))
    if size.uris < growth.LEAST_URIS or size.queues > size.uris * growth.MOST_QUEUES_A_URI:
        raise argparse.ArgumentTypeError(
            f"URIS must be at least {growth.LEAST_URIS}, and QUEUES at most two fifths of that, got {text!r}"
        )
    return size


_HEADER = (
    f"{'':56}{'items':>8}{'items/s':>9}{'server':>9}{'at 70 ms':>9}{'client':>9}  "
    f"{'loop ms':>7}  others; ms to answer"
)


def _row(figure: Figure) -> str:
    others = [f"{name} {us:.0f}" for name, us in figure.cpu_us.items() if name not in (SERVER, "client")]
    waits = [f"{name} {ms:.2f}" for name, ms in figure.wait_ms.items()]
    memory = [f"{name} {mib:.0f} MiB" for name, mib in figure.mib.items()]
    return (
        f"{figure.name:56}{figure.items:>8}{figure.per_s:>9.0f}{figure.cpu_us[SERVER]:>9.1f}"
        f"{figure.scaled_us(SERVER):>9.1f}{figure.cpu_us['client']:>9.1f}  {figure.loop_ms:>7.1f}  "
        + ", ".join(others + waits + memory)
    )


def _sync_ms(where: Path) -> float:
    """Median time to append 20 kB to a file and make them durable: whether there is a real disk below."""
    path = where / f"bench-sync-{os.getpid()}"
    took_s: list[float] = []
    try:
        with path.open("ab", buffering=0) as file:
            for _ in range(SYNCS):
                start_s = time.perf_counter()
                file.write(b"x" * 20_000)
                os.fdatasync(file.fileno())
                took_s.append(time.perf_counter() - start_s)
    finally:
        path.unlink(missing_ok=True)
    return sorted(took_s)[SYNCS // 2] * 1e3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
