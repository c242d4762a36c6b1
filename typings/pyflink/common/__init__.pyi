from typing import Any

class TypeInformation: ...

class Types:
    @staticmethod
    def STRING() -> TypeInformation: ...
    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TypeInformation: ...

class Configuration:
    _j_configuration: Any
    def set_string(self, key: str, value: str) -> Configuration: ...

class Duration:
    @staticmethod
    def of_seconds(seconds: int) -> Duration: ...

class Encoder:
    @staticmethod
    def simple_string_encoder(charset_name: str = ...) -> Encoder: ...

class WatermarkStrategy:
    @staticmethod
    def no_watermarks() -> WatermarkStrategy: ...

class JobClient:
    def get_job_id(self) -> Any: ...
