"""What the reports call things."""

TITLES = {
    "permuted_mnist": "Permuted MNIST",
    "rotated_mnist": "Rotated MNIST",
    "split_mnist": "Binary Split MNIST",
    "split_cifar10": "Binary Split CIFAR-10",
}


def title(benchmark: str) -> str:
    """A benchmark for people; an image size that was compared counts as one."""
    size = benchmark.removeprefix("size_")
    return f"{size}×{size} pixels" if size != benchmark else TITLES.get(benchmark, benchmark)
