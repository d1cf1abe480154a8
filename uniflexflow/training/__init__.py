"""compile, fit, evaluate and predict.

``trainer`` is the face that models inherit; ``fit_run`` is one call of fit, ``loop`` the
loops over batches; ``compile_loss`` and ``compile_metrics`` match what ``compile`` was
given to the outputs; ``progress`` and ``display`` show how far it is.
"""
