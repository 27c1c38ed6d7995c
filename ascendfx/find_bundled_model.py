"""Where the small trained model is that comes with the package."""

from pathlib import Path


def bundled_model() -> Path:
    """Return the Hugging Face directory of the bundled model.

    It is a DeepSeek-V3 with 6 M parameters trained for tests and examples; its ``README.md`` says
    on what. It works from a checkout and from an installed wheel.
    """
    return Path(__file__).parent / "models" / "tiny_deepseek"
