"""What a worker answers to the control plane: one module per kind of question, all of them named in desk.KINDS."""
