"""The life of a namespace: its settings, suspension, export, deletion, and the chain of its seals."""
