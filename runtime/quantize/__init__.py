"""A model directory, quantized by a recipe, as another directory."""
