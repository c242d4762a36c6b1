"""A memory behind a server: exact trees and sets whose calls are HTTP requests."""
