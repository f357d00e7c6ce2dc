"""What the reports call things."""

TITLES = {
    "permuted_mnist": "Permuted MNIST",
    "rotated_mnist": "Rotated MNIST",
    "split_mnist": "Binary Split MNIST",
    "split_cifar10": "Binary Split CIFAR-10",
}
