"""Words of which English phrases of prompt injection are made, by the name that phrases use."""

from __future__ import annotations

LISTS = {
    "gap": r"[^.!?\n]{0,40}?",
    "far": r"(?:[^.!?\n]|\.(?=\w)){0,90}?",
    "ai": r"(?:an?_|the_|any_|all_|every_)?(?:ai|a\.i\.|llm|large_language_model|language_model|gpt"
    r"|chatgpt|claude|gemini|copilot)(?:[_-](?:assistant|agent|model|system|reviewer|reader|tool"
    r"|bot))?s?",
    "agent": "assistant agent model chatbot bot ai llm",
    "ignore": "ignore ignoring disregard disregarding forget forgetting override overriding bypass"
    " bypassing overlook discard neglect abandon supersede violate drop circumvent"
    " set_aside throw_away do_not_(?:follow|obey|heed) don't_(?:follow|obey|heed)"
    " stop_(?:following|obeying|heeding) no_longer_(?:follow|obey) no_attention_to no_heed_to"
    " ignores disregards overrides bypasses violates",
    "filler": "all any every everything each and of the my our in to",
    "old": "previous prior earlier above preceding foregoing former original existing other your"
    " system safety these those all any initial default past developer(?:'s|s')? operator(?:'s|s')?"
    " (?:openai|anthropic|google|microsoft)(?:'s)?",
    "stated": "above before earlier previously so_far given received until_now at_the_start",
    "laws": "instructions? prompts? rules? guidelines? directives? directions? commands?"
    " constraints? restrictions? policy policies safeguards? guardrails? programming orders",
    "orders": "instructions? prompts? guidelines? directives? orders? programming",
    "void": r"void cancell?ed revoked outdated obsolete invalid superseded suspended lifted null"
    r" no_longer_(?:apply|applies|valid|count|in_force) not_apply replaced_by",
    "that": r"(?:_that)?(?:_(?:you|i|we))?(?:_(?:was|were|is|have_been|'ve_been))?(?:_<heard>)?",
    "heard": "said told wrote written learned taught given",
    "before": "above before previously prior earlier until_now so_far",
    "text": "text message instructions? prompt content conversation task",
    "fake": "decoy fake test trick distraction joke placeholder example_only",
    "title": "message prompt override note notice instructions? alert directive",
    "start": "you your ignore disregard forget do_not don't never always from_now"
    " new_(?:rules?|instructions?|policy|orders?|task) override the_(?:user|assistant|model|ai"
    "|agent)"
    " all_(?:users?|requests?|transfers?|payments?|refunds?) approve transfer trust obey comply"
    " reply respond answer print reveal disable enable safety call delete cleanup",
    "urgent": "new updated? revised important urgent priority hidden secret override durable"
    " permanent standing persistent",
    "order": "prompt instructions? messages? directives? policy policies rules?",
    "mode": "developer debug god admin administrator root sudo jailbreak unrestricted dan"
    " maintenance unfiltered",
    "on": "enabled activated active engaged unlocked on(?=[.,;!]|$)",
    "enter": "enable activate enter switch_to unlock engage switch_into go_into",
    "announced": r"(?:new|updated|revised|additional|urgent|latest|permanent)_(?:\w+_)?"
    r"(?:instructions?|directives?|orders?|commands?|prompt|task|rules?|guidelines|protocol)"
    r"(?:_for_(?:the_|all_)?\w+)?_?[:-]",
    "for_good": "from_now_on from_here_on from_this_point_on starting_now henceforth going_forward"
    " as_of_now effective_immediately until_further_notice for_the_rest_of_th(?:is|e)_\\w+ always",
    "must": "must will shall should are_to have_to may can",
    "answer": r"(?:answer|respond|reply|speak|output|say|write|print|talk)(?:_to_\w+(?:_\w+)?)?",
    "alone": "only exclusively solely always just nothing_(?:but|except|else)",
    "wild": "unrestricted unfiltered uncensored jailbroken evil amoral",
    "limits": "morals? morality ethics? rules? restrictions? limits? limitations? filters? norms"
    " guidelines? policy policies boundaries constraints? confines censorship refusals? safeguards",
    "free": r"no without without_any free_of free_from freed_from not_bound_by beyond avoids?"
    r" ignor(?:e|es|ing)",
    "become": "you_are you're you_will you_have you_can you_shall act_as act_like pretend"
    " role-?play"
    " play simulate imagine respond_as answer_as behave_as become be_an? your_name_is",
    "harm": "napalm bombs? explosives? malware ransomware weapons? poison keyloggers?"
    " methamphetamine",
    "lift": "without disable turn_off skip bypass remove switch_off suspend deactivate drop",
    "guard": "safety security content moderation compliance validation verification"
    " authorization authorisation admin all",
    "guards": "checks? filters? restrictions? limits? controls? guidelines rules policy policies"
    " measures steps? protocols? prompts?",
    "off": "suspended disabled lifted off removed deactivated unnecessary waived not_needed"
    " not_required spam ignored turned_off",
    "reveal": "reveal print show repeat output display leak disclose recite echo tell_me give_me"
    " write_out dump translate summari[sz]e rephrase paraphrase encode spell_out list share"
    " what_(?:is|are|was|were) starts?_with begins?_with",
    "inner": "system initial hidden secret original internal developer full first",
    "prompt": "prompt instructions? messages? configuration context rules",
    "tell": "tell(?:ing)? inform(?:ing)? mention(?:ing)? reveal(?:ing)? alert(?:ing)?"
    " notify(?:ing)? disclos(?:e|ing) warn(?:ing)?",
    "of": "of about this that it any these instructions? message to the your fact",
    "people": "users? humans? operators? anyone anybody customers? owner administrators?",
    "stealthily": "silently secretly covertly quietly",
    "act": "forward send copy bcc upload execute run add append include post exfiltrate transmit"
    " log record redirect approve delete change grant email disable insert invite transfer pay"
    " install wire read",
    "ask": "ask(?:ing)? check(?:ing)?_with consult(?:ing)? wait(?:ing)?_for request(?:ing)?",
    "leave": "confirmations? approval permission consent authorization authorisation review",
    "deed": "approve execute run send pay transfer wire delete export grant allow authorize"
    " authorise perform carry_out",
    "carry": "e-?mails? sends? forwards? posts? uploads? transmits? leaks? exfiltrates? pipe copy"
    " share dump bcc disclose encode include append put",
    "goods": "passwords? credentials? api[_-]?keys? secrets? tokens? conversations? chat_history"
    " chat_logs? history customer_lists? customer_records? internal_data databases? client_data"
    " mailing_lists?"
    " memory memories personal_data personal_information private_data"
    " private_keys? private_information user_data customer_data session_data contents? records?"
    " cookies? environment_variables env_vars? everything e-?mail_address(?:es)?",
    "place": r"https?://\S [\w.+-]+@[\w-]+\.\w webhooks?\b external remote third[_-]party"
    " attacker every_(?:link|url|image) each_(?:link|url|image) the_url",
    "is": "is has_been was",
    "toward": "to at via into in",
    "raise": "grant grants granted give assign assigned elevate elevated escalate promote promoted",
    "high": "admin administrator root superuser full unrestricted unlimited elevated",
    "right": "access rights? privileges? permissions? control roles?",
    "who": "user account role caller requester session assistant agent",
    "cleared": "verified authenticated authori[sz]ed approved granted elevated promoted"
    " whitelisted",
    "who_asks": "the_user a_user users someone somebody anyone the_customer a_customer customers"
    " he_or_she",
    "asks": "asks? mentions? wants? says? requests? types? writes? logs? books? buys? sends?"
    " inquires?"
    " needs?",
    "when": "when(?:ever)? if every_time each_time as_soon_as any_time once",
    "asked": r"you_(?:see|read|process|handle|open|review|load|are_asked|write|get|receive"
    r"|summari[sz]e|answer) asked summari[sz]ing"
    r" answering responding writing",
    "each": r"(?:on|at|for|after)_(?:each|every)_(?!of) before_(?:answering|responding|replying"
    r"|you_answer"
    r"|you_respond|anything_else)",
    "sure": "always also first instead silently secretly immediately must only every all never"
    " automatically",
    "remember": "remember memori[sz]e keep_in_mind note_for_later record_that"
    r" learn_that (?:store|save|write|add|put|record)(?:_(?:this|it|the_following))?_(?:in|to|as"
    r"|into)_"
    r"(?:your_|the_|an?_)?(?:long-term_|permanent_|core_|durable_)?(?:memory|memories|fact|rule"
    r"|truth)"
    r" updates?_(?:your|the)_memory in_(?:all|every|any)_future_\w+ for_all_future_\w+",
    "now": "from_now_on from_this_(?:moment|point)(?:_on)? henceforth starting_now going_forward"
    " from_today_on",
}
"""Words by the name that phrases use; ``_`` is a space."""
