"""The rules, in tables by what operations do.  Importing this registers all of them."""

from portakern.torch_import.aten import (
    activations,
    attention,
    backward,
    bags,
    bessel,
    comparisons,
    complexes,
    convolutions,
    gammas,
    indexing,
    losses,
    matrices,
    norms,
    orders,
    pointwise,
    pooling,
    products,
    quantising,
    random,
    recurrent,
    reductions,
    resizing,
    running,
    sources,
    special,
    trigonometry,
    views,
    without,
)

__all__ = [
    "activations", "attention", "backward", "bags", "bessel", "comparisons", "complexes", "convolutions", "gammas",
    "indexing", "losses", "matrices", "norms", "orders", "pointwise", "pooling", "products", "quantising",
    "random", "recurrent", "reductions", "resizing", "running", "sources", "special", "trigonometry", "views", "without",
]  # fmt: skip
