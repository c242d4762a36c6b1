"""The memory of a server: its exact trees and sets, each call a request."""
