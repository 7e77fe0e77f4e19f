"""The published contract: JSON Schemas and an AsyncAPI document, generated from the models, and what may change in them.

The generated files are `schemas/jsonschema/*.json` and `schemas/asyncapi.json`; `loopwarden schema export` writes them.
"""
