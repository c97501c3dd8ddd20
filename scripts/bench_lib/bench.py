"""Builds the benchmarks, runs them on an idle host and with one core busy, and prints one table.

Every figure stands beside a ceiling of the same run: ceiling and subject take turns, so that both meet the same noise.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"
PERF_DOCS = ROOT / "docs" / "perf"

# name: (program, measured in both states, what it shows)
BENCHES = {
    "shm": ("shm_perf", True, "validated READs and lookups over shared memory against a copy of the same pieces"),
    "null": ("null_perf", False, "operations per second without a NIC; allocations, locks and system calls"),
    "node": ("node_perf", True, "exists, get and put of a whole node: latencies and GB/s"),
    "ring": ("ring_perf", False, "the SPSC ring"),
    "validate": ("validate_perf", False, "what validation adds to a batch of 128"),
    "pool": ("pool_perf", False, "publish, evict, supply of free slots"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/bench", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures PeerCache on this machine, each figure beside its ceiling of the same run.",
        epilog="benchmarks:\n" + "\n".join(f"  {name:<9} {what}" for name, (_, _, what) in BENCHES.items()) +
        "\n\nexamples:\n  scripts/bench --quick            all, in about two minutes\n"
        "  scripts/bench shm node           two of them, seven runs each\n"
        "  scripts/bench --json out.json    all, with every row as JSON\n"
        "  scripts/bench --publish          all, and write the rows to docs/perf/")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="shorter runs: a first look, not for publishing")
    parser.add_argument("--runs", type=int, default=0, help="interleaved runs per case (default 7, quick 3)")
    parser.add_argument("--idle-only", action="store_true", help="leave out the runs with one core busy")
    parser.add_argument("--json", metavar="FILE", help="write all rows as JSON ('-': standard output)")
    parser.add_argument("--publish", action="store_true", help="write table and raw data to docs/perf/ (needs 5 runs)")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; known: {', '.join(BENCHES)}")
    options.runs = options.runs or (3 if options.quick else 7)
    if options.publish and (options.runs < 5 or options.quick):
        parser.error("--publish needs at least 5 runs and no --quick")
    return options


def build(programs):
    say = sys.stderr
    print("building the benchmarks (release) ...", file=say, flush=True)
    for command in (["cmake", "--preset", "release"],
                    ["cmake", "--build", "--preset", "release", "--target", *programs]):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            print(done.stdout[-4000:], file=say)
            sys.exit(f"bench: `{' '.join(command)}` failed")


class BusyCore:
    """Keeps one core busy by a process of normal priority while the block runs."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def run_program(name, state, options):
    program, _, _ = BENCHES[name]
    command = [str(BIN / program), "--runs", str(options.runs), "--state", state]
    if options.quick:
        command.append("--quick")
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            row = summarise(json.loads(line))
            rows.append(row)
            print(format_row(row), file=sys.stderr, flush=True)
    if process.returncode != 0:
        sys.exit(f"bench: {program} ended with status {process.returncode}")
    return rows


def summarise(raw):
    """Median, spread and ratio of one case; ratios are taken run by run, then their median."""
    values = raw["values"]
    row = {key: raw[key] for key in ("bench", "case", "state", "unit")}
    median = statistics.median(values)
    row.update(value=median, mad=statistics.median(abs(v - median) for v in values), min=min(values),
               max=max(values), runs=len(values), ceiling=None, ceiling_name=None, ratio=None)
    if raw.get("ceilings"):
        ratios = [v / c for v, c in zip(values, raw["ceilings"])]
        row.update(ceiling=statistics.median(raw["ceilings"]), ceiling_name=raw["ceiling_name"],
                   ratio=statistics.median(ratios))
    for key, value in raw.items():
        if key not in row and key not in ("values", "ceilings"):
            row[key] = value
    row["raw"] = {"values": values, "ceilings": raw.get("ceilings", [])}
    row["verdict"] = verdict(row, raw)
    return row


def verdict(row, raw):
    if row["ratio"] is not None and row["ratio"] > 1.02 and raw.get("budget_ratio"):
        return "above its ceiling: ceiling wrong?"
    if raw.get("budget_ratio"):
        return "ok" if row["ratio"] >= raw["budget_ratio"] else f"below {raw['budget_ratio']:g}"
    if raw.get("budget_value"):
        good = row["value"] >= raw["budget_value"] if raw["higher_is_better"] else row["value"] <= raw["budget_value"]
        return "ok" if good else f"budget {human(raw['budget_value'], row['unit'])}"
    return ""


def human(value, unit):
    if value is None:
        return "-"
    if unit == "GB/s":
        return f"{value:.2f}"
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if suffix == ' k' else limit):.2f}{suffix}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def format_row(row):
    unit = row["unit"]
    spread = f"±{human(row['mad'], unit)} ({human(row['min'], unit)}–{human(row['max'], unit)})"
    ceiling = "" if row["ceiling"] is None else f"{human(row['ceiling'], unit)} {row['ceiling_name']}"
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
    return (f"{row['bench']:<9} {row['case']:<44} {row['state']:<5} {human(row['value'], unit):>9} {unit:<13} "
            f"{spread:<28} {ceiling:<26} {ratio:>6} {row['verdict']}")


def environment():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.processor())
    git = lambda *a: subprocess.run(["git", *a], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {"time_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpu": model, "cores": os.cpu_count(),
            "kernel": platform.release(), "load_before": os.getloadavg()[0],
            "memory_GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "commit": git("rev-parse", "--short", "HEAD"), "tree_changed": bool(git("status", "--porcelain")),
            "compiler": subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.split("\n")[0]}


def publish(rows, facts, command):
    data_dir = PERF_DOCS / "data"
    data_dir.mkdir(parents=True, exist_ok=True)
    stamp = facts["time_utc"][:16].replace(":", "").replace("T", "-")
    for bench in sorted({row["bench"] for row in rows}):
        mine = [row for row in rows if row["bench"] == bench]
        data = data_dir / f"{stamp}-{bench}.json"
        data.write_text(json.dumps({"environment": facts, "command": command, "rows": mine}, indent=1) + "\n")
        lines = [f"# {bench}: {BENCHES[bench][2]}", "",
                 f"`{command}` at {facts['time_utc']}, commit {facts['commit']}"
                 f"{' with local changes' if facts['tree_changed'] else ''}; {facts['cpu']}, {facts['cores']} cores, "
                 f"Linux {facts['kernel']}; raw data: [data/{data.name}](data/{data.name}).", "",
                 "| case | state | median | MAD | min–max | unit | ceiling | ratio | |", "|--|--|--|--|--|--|--|--|--|"]
        for row in mine:
            unit = row["unit"]
            ceiling = "" if row["ceiling"] is None else f"{human(row['ceiling'], unit)} ({row['ceiling_name']})"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
            median, mad, least, most = (human(row[key], unit) for key in ("value", "mad", "min", "max"))
            lines.append(f"| {row['case']} | {row['state']} | {median} | {mad} | {least}–{most} | {unit} | {ceiling} | "
                         f"{ratio} | {row['verdict']} |")
        (PERF_DOCS / f"{bench}.md").write_text("\n".join(lines) + "\n")
        print(f"wrote docs/perf/{bench}.md and docs/perf/data/{data.name}", file=sys.stderr)


def main():
    options = parse_arguments()
    if options.list:
        print("\n".join(f"{name:<9} {what}" for name, (_, _, what) in BENCHES.items()))
        return
    names = options.names or list(BENCHES)
    build([BENCHES[name][0] for name in names])
    facts = environment()
    if facts["load_before"] > 0.5:
        print(f"note: load average is {facts['load_before']:.2f}; figures of an idle host need less", file=sys.stderr)
    rows = []
    for name in names:
        rows += run_program(name, "idle", options)
        if BENCHES[name][1] and not options.idle_only:
            with BusyCore():
                rows += run_program(name, "busy", options)
    if options.json == "-":
        json.dump(rows, sys.stdout, indent=1)
        print()
    elif options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    else:
        print("\n".join(format_row(row) for row in rows))
    if options.publish:
        publish(rows, facts, " ".join(["scripts/bench", *sys.argv[1:]]))
    missed = [row for row in rows if row["verdict"] not in ("", "ok")]
    if missed:
        print(f"{len(missed)} of {len(rows)} rows outside their budget", file=sys.stderr)


if __name__ == "__main__":
    main()
