"""A trained model as a folder: saved, loaded, exported to ONNX, imported from the release, averaged, shortened."""
