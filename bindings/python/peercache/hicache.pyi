import abc
import logging
from typing import Any, Dict, List, Optional, Type

LOGGER: logging.Logger
HAS_SGLANG: bool

class HiCacheStorage(abc.ABC):
    """SGLang's class of this name, or a stand-in."""

    @abc.abstractmethod
    def get(self, key: Any, target_location: Any = ..., target_sizes: Any = ...) -> Any: ...
    @abc.abstractmethod
    def batch_get(
        self, keys: Any, target_locations: Any = ..., target_sizes: Any = ...
    ) -> List[Any]: ...
    @abc.abstractmethod
    def set(
        self, key: Any, value: Any = ..., target_location: Any = ..., target_sizes: Any = ...
    ) -> bool: ...
    @abc.abstractmethod
    def batch_set(
        self,
        keys: Any,
        values: Any = ...,
        target_locations: Any = ...,
        target_sizes: Any = ...,
    ) -> bool: ...
    @abc.abstractmethod
    def exists(self, key: Any) -> bool: ...

class PoolTransferResult:
    """SGLang's class of this name, or a stand-in."""

    kv_hit_pages: int
    extra_pool_hit_pages: Dict[Any, int]
    restorable_prefix_pages: Optional[List[int]]
    def __init__(
        self,
        kv_hit_pages: int,
        extra_pool_hit_pages: Dict[Any, int],
        restorable_prefix_pages: Optional[List[int]] = ...,
    ) -> None: ...

def find_storage_metrics() -> Optional[Type[Any]]: ...
def make_transfer_result(
    kv_pages: int, pool_pages: Dict[Any, int], restorable: List[int]
) -> PoolTransferResult: ...
