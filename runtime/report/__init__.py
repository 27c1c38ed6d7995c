"""The page that shows a dump: what each pass did, what runs, and what it is modelled to cost."""
