"""Faces: how people and programs reach the service. Each is thin and knows neither the others nor what is behind it."""
