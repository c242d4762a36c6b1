"""A memory behind an alveus server: exact trees and sets whose calls are HTTP requests."""
