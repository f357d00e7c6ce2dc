"""What the reports call things."""

TITLES = {
    "permuted_mnist": "Permuted MNIST",
    "rotated_mnist": "Rotated MNIST",
    "split_mnist": "Binary Split MNIST",
}
