from typing import Any, Dict, Optional

from . import _native

class Node(_native.Node):
    """One PeerCache instance: publishes objects into its own pool, finds and reads those of others."""

    def __init__(self, options: Optional[Dict[str, Any]] = ..., **more: Any) -> None: ...
    def __enter__(self) -> Node: ...
    def __exit__(self, *exc_info: object) -> None: ...
