"""What is computed: types, operations, graphs, their text form and their exact meaning."""
