"""Compile DeepSeek models for Huawei Ascend 910B by proved graph transformations."""
