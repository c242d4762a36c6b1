import json
from alveus.compat.agentscope import MemoryBase, MessageBase, Msg, PromptType, TemporaryMemory

def main(memory: MemoryBase):
    m = Msg("Bob", "hello", "https://example.org/a.png", "2024-05-01 10:00:00", mood="glad")   # url is third, timestamp fourth
    assert m.name == m["name"] == "Bob" and m.url == m["url"] and m.mood == "glad" and isinstance(m, dict)
    assert m.timestamp == "2024-05-01 10:00:00" and m.role == "assistant" and Msg("Bob", "x").id != m.id
    m.mood = "calm"; del m.mood
    try:
        m.mood
    except AttributeError as e:
        assert "no attribute 'mood'" in str(e)
    assert m.to_str() == "Bob: hello" and json.loads(m.serialize())["__type"] == "Msg"
    assert issubclass(Msg, MessageBase) and Msg("Bob", "x").url is None
    Msg("Bob", "hello", echo=True)                      # shown through the logger "alveus.chat"
    two = Msg("Bob", "look", ["a.png", "b.png"], role="user")

    memory.add(m); memory.add([two, {"name": "Eve", "content": "a plain dict"}])
    assert memory.size() == 3
    assert memory.get_memory(PromptType.LIST, 2)[0] == two             # return_type first, recent_n second
    assert memory.get_memory(return_type=PromptType.STRING, recent_n=1) == "Eve: a plain dict"
    assert memory.get_memory(filter_func=lambda i, unit: unit["name"] == "Bob") == [m, two]
    memory.delete(2); memory.delete(i for i in (0,))                   # an int, any iterable of ints
    assert memory.get_memory() == [two]
    memory.export(file_path="messages.json")
    kept = memory.export(to_mem=True)
    memory.load("messages.json", overwrite=True); memory.load(kept)    # one id, loaded twice
    assert memory.get_memory() == [two]
    memory.load({"name": "Eve", "content": "again"}); assert memory.size() == 2
    memory.clear(); assert memory.size() == 0

if __name__ == "__main__":
    main(TemporaryMemory())
