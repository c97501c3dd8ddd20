"""Page geometry of real models: how many bytes one 64-token page of KV cache has on one rank.

Shapes are those of the published model configurations. A demo divides the layers (`scaled`) so
that a run fits into the memory of an ordinary machine; heads, row sizes and layouts stay what they
are.
"""

import dataclasses

PAGE_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class Model:
    """KV cache of one tensor-parallel rank.

    Attributes:
        name: what `--model` says; also the model name in the namespace.
        kind: "mha" (K and V per head, grouped-query included) or "mla" (one row for all heads).
        layers: layers of the whole model, or what `scaled` left of them.
        heads: KV heads of this rank; 1 for "mla".
        dim: elements per head, or per row for "mla".
        dtype_bytes: bytes of one element.
        tp_size: ranks the model is spread over; the demo's nodes are all rank 0 of their own
            replica.
        active_params: parameters used per token, for the prefill estimate.
        full_layers: layers before scaling.
    """

    name: str
    kind: str
    layers: int
    heads: int
    dim: int
    dtype_bytes: int
    tp_size: int
    active_params: float
    full_layers: int = 0

    def __post_init__(self):
        if not self.full_layers:
            object.__setattr__(self, "full_layers", self.layers)

    @property
    def page_bytes(self):
        """Bytes of one page: K and V, or the rows, of all layers (of this scale)."""
        halves = 1 if self.kind == "mla" else 2
        return PAGE_TOKENS * self.layers * self.heads * self.dim * self.dtype_bytes * halves

    @property
    def full_page_bytes(self):
        """Bytes of one page of the unscaled model."""
        return self.page_bytes * self.full_layers // self.layers

    def scaled(self, scale):
        """Returns the model with its layers divided by `scale` (at least one layer stays)."""
        if scale < 1:
            raise ValueError(f"scale must be at least 1, not {scale}")
        layers = max(1, self.full_layers // scale)
        return dataclasses.replace(self, layers=layers, full_layers=self.full_layers)

    def layouts(self):
        """Returns the host pool layouts this kind of cache can have."""
        common = ("page_first", "page_first_direct", "layer_first")
        return common if self.kind == "mla" else common + ("page_head",)


_ALL = (
    Model("llama3-8b", "mha", 32, 8, 128, 2, 1, 8.0e9),
    Model("llama3-8b-fp8", "mha", 32, 8, 128, 1, 1, 8.0e9),
    Model("llama3-70b-tp8", "mha", 80, 1, 128, 2, 8, 70.6e9),
    Model("llama3-70b-tp8-fp8", "mha", 80, 1, 128, 1, 8, 70.6e9),
    Model("qwen3-32b", "mha", 64, 8, 128, 2, 1, 32.8e9),
    Model("qwen3-32b-tp4", "mha", 64, 2, 128, 2, 4, 32.8e9),
    Model("qwen3-32b-tp8", "mha", 64, 1, 128, 2, 8, 32.8e9),
    Model("deepseek-v3", "mla", 61, 1, 576, 2, 8, 37e9),
    Model("deepseek-v3-fp8", "mla", 61, 1, 576, 1, 8, 37e9),
)
MODELS = {model.name: model for model in _ALL}

# Assumption of the prefill estimate, stated in the report: a forward pass costs 2 operations per
# active parameter and token, and one GPU sustains 400 TFLOP/s of them (some 40 % of an H100's
# dense bf16 peak). Attention's quadratic part is left out, so long prompts are underestimated.
GPU_FLOPS_PER_S = 400e12


def prefill_seconds(model, tokens):
    """Returns the estimated GPU time to compute the KV cache of `tokens`, in seconds."""
    return tokens * 2 * model.active_params / (model.tp_size * GPU_FLOPS_PER_S)
