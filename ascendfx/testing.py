"""A pytest plugin for tests of your own models: the fixture ``golden_compile``.

>>> def test_my_model(golden_compile):  # doctest: +SKIP
...     golden_compile(model, "my_model", dtype="bfloat16")

``pytest --update-ascendfx-golden`` records ``ascendfx_golden/my_model`` beside the test; without it
the test fails if programs, plans, kernels or outputs are not as recorded, and says which pass,
operation and value moved. pytest finds the plugin by itself; importing it costs nothing.
"""

from ascendfx.runtime.golden.pytest_plugin import GoldenCompile, golden_compile, pytest_addoption

__all__ = ["GoldenCompile", "golden_compile", "pytest_addoption"]
