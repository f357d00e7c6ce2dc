import subprocess
import sys


def test_torchvision_imports_beside_any_torch():
    """In a fresh process: models, data sets and transforms work."""
    code = (
        "from pipeline.data.torchvision_compat import torchvision\n"
        "tv = torchvision()\n"
        "import torch\n"
        "model = tv.models.resnet18(weights=None).eval()\n"
        "print(model(torch.zeros(1, 3, 32, 32)).shape, tv.datasets.CIFAR10.__name__, tv.transforms.Resize(8))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "torch.Size([1, 1000]) CIFAR10" in done.stdout
