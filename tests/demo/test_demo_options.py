"""The command line, and the memory a run takes."""

import pytest

from demo_lib import models, options, sizing

GiB = 1 << 30


def test_defaults():
    parsed = options.parse([])
    assert (parsed.nodes, parsed.requests, parsed.route, parsed.seed) == (4, 1000, "turns", 1)
    assert parsed.kill_one_at is None and parsed.freeze_one_at is None and not parsed.json


def test_values():
    parsed = options.parse(
        "--nodes 2 --pool 1.5GiB --kill-one-at 50% --model deepseek-v3 --scale 8".split()
    )
    assert (parsed.pool, parsed.kill_one_at, parsed.scale) == (3 * GiB // 2, 0.5, 8)
    assert options.parse(["--seconds", "5"]).requests is None
    assert options.parse(["--trace", "x", "--requests", "all"]).requests == "all"


@pytest.mark.parametrize(
    "arguments,text",
    [
        ("--nodes 0", "0"),
        ("--pool much", "much"),
        ("--pool 0", "'0' is no size"),
        ("--kill-one-at 100%", "100%"),
        ("--kill-one-at half", "half"),
        ("--freeze-for 0", "seconds"),
        ("--nodes 1 --kill-one-at 50%", "another node"),
        ("--model gpt", "llama3-8b"),
        ("--route nearest", "sticky"),
        ("--requests all", "no end"),
        ("--requests none", "none"),
        ("--requests 0", "whole number"),
        ("--model deepseek-v3 --layout page_head", "page_first"),
        ("--nod 3", "--nod"),
        ("--nonsense", "--nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(arguments, text, capsys):
    with pytest.raises(SystemExit) as ended:
        options.parse(arguments.split())
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        options.parse(["--help"])
    text = capsys.readouterr().out
    for word in ("examples", "--kill-one-at 50%", "exit status", "docs/traces.md", *models.MODELS):
        assert word in text


@pytest.mark.parametrize(
    "text,count",
    [
        ("1GiB", GiB),
        ("1g", GiB),
        ("512 MiB", GiB // 2),
        ("1.5GB", GiB * 3 // 2),
        ("4096", 4096),
        ("2k", 2048),
    ],
)
def test_parse_bytes(text, count):
    assert sizing.parse_bytes(text) == count


@pytest.mark.parametrize(
    "name,page_bytes",
    [  # K and V, or rows, of 64 tokens on one rank
        ("llama3-8b", 8388608),
        ("llama3-8b-fp8", 4194304),
        ("llama3-70b-tp8", 2621440),
        ("llama3-70b-tp8-fp8", 1310720),
        ("qwen3-32b", 16777216),
        ("qwen3-32b-tp4", 4194304),
        ("qwen3-32b-tp8", 2097152),
        ("deepseek-v3", 4497408),
        ("deepseek-v3-fp8", 2248704),
    ],
)
def test_page_geometry(name, page_bytes):
    model = models.MODELS[name]
    assert model.page_bytes == model.full_page_bytes == page_bytes
    scaled = model.scaled(8)
    assert scaled.layers == model.layers // 8
    assert scaled.full_page_bytes == page_bytes
    assert model.scaled(1000).layers == 1


def _plan(available, **more):
    given = dict(nodes=4, distinct_pages=3800, requested_pages=16000, cpus=2)
    given.update(more)
    return sizing.plan(models.MODELS["llama3-8b"], available=available, **given)


@pytest.mark.parametrize("available", [4 * GiB, 8 * GiB, 24 * GiB, 512 * GiB])
def test_a_plan_fits_the_machine_and_the_trace(available):
    plan = _plan(available)
    page = models.MODELS["llama3-8b"].scaled(plan.scale).page_bytes
    assert plan.fits and plan.total_bytes(4) <= min(8.3 * GiB, available / 2)
    assert 4 * plan.pool_bytes >= 3800 * page
    assert f"scale {plan.scale}" in plan.reason


def test_a_smaller_machine_gets_smaller_pages():
    assert _plan(3 * GiB).scale > _plan(24 * GiB).scale


def test_a_given_scale_and_pool_are_kept():
    plan = _plan(24 * GiB, scale=4, pool_bytes=GiB)
    assert (plan.scale, plan.pool_bytes, plan.fits) == (4, GiB, False)


def test_more_than_the_machine_has_is_refused_with_the_sizes():
    with pytest.raises(ValueError, match="40 GiB.*12.0 GiB are free|40.*12 GiB are free"):
        _plan(12 * GiB, scale=32, pool_bytes=10 * GiB)


def test_free_memory_obeys_the_cgroup(tmp_path):
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   8388608 kB\n")
    (proc / "self" / "cgroup").write_text("0::/a/b\n")
    assert sizing.free_bytes(str(proc), str(root)) == 8 * GiB
    (root / "a" / "memory.max").write_text(f"{3 * GiB}\n")  # a limit above counts too
    (root / "a" / "memory.current").write_text(f"{2 * GiB}\n")
    (root / "a" / "memory.stat").write_text(f"anon 5\ninactive_file {GiB // 2}\n")
    (root / "a" / "b" / "memory.max").write_text("max\n")
    assert sizing.free_bytes(str(proc), str(root)) == GiB + GiB // 2
