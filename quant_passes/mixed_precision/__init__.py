"""Which weight becomes what: sensitivities, an exact choice under limits, the front of choices."""
