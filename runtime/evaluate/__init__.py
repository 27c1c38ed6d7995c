"""How well a model predicts and answers, beside the one that it was made of."""
