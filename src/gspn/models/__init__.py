"""The public face: models as scikit-learn estimators and torch modules, thin compositions of the other rooms."""
