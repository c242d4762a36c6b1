from alveus.compat.flink_agents import ChatMessage, InputEvent, MemoryObject, RunnerContext, action

@action(InputEvent)
def four(event: InputEvent, ctx: RunnerContext):
    sensory_memory = ctx.sensory_memory
    user: MemoryObject = sensory_memory.new_object("user")
    user.set("name", "jhon")
    user.set("age", 13)
    # which is equal to
    sensory_memory.set("user.name", "jhon")
    sensory_memory.set("user.age", 13)

    user: MemoryObject = sensory_memory.get_object("user")
    name: str = user.get("name")
    age: int = user.get("age")
    assert (name, age) == (sensory_memory.get("user.name"), sensory_memory.get("user.age")) == ("jhon", 13)

    history = ctx.long_term_memory.get_or_create_memory_set(           # [ours] from here
        name="chat_history", item_type=ChatMessage, capacity=100, compaction_strategy=None)
    ids = history.add([ChatMessage(role="user", content="I like tea"),
                       ChatMessage(role="assistant", content="Noted")])
    assert [i.value.content for i in history.get_recent(2)] == ["I like tea", "Noted"]   # oldest first
    item = history.get(ids)[0]
    assert item.memory_set_name == "chat_history" and item.value == ChatMessage(role="user", content="I like tea")
    assert item.compacted is False and item.created_time and item.last_accessed_time and item.id == ids[0]
    assert history.search(query="favourite drink", limit=1)[0].value.content == "I like tea"
    assert history.size == 2 and ctx.long_term_memory.get_memory_set("chat_history") == history

    rules = ctx.knowledge.get_or_create_knowledge_set(name="house_rules")
    rules.add({"rule": "no sugar after nine", "weight": 3})            # any JSON
    fact = rules.get_recent(1)[0]
    assert (fact.name, fact.value["weight"]) == ("house_rules", 3) and fact.created_time <= fact.updated_time
