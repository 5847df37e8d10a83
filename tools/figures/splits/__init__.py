"""Figures of networks that are split over GPUs: by layers, by matrices, by experts."""
