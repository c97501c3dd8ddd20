"""Makes the demo's modules and the stand-in store importable."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "scripts")
for folder in (_SCRIPTS, _HERE):
    if folder not in sys.path:
        sys.path.insert(0, folder)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: engines with the real store; some seconds each")


def pytest_addoption(parser):
    parser.addoption(
        "--demo-requests", type=int, default=120, help="requests of each run in test_demo_run.py"
    )
