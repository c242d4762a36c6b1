"""Phrases of prompt injection in English, by what they try.

Each is a habit of known attacks (OWASP, LLM01: https://genai.owasp.org/llmrisk/llm01-prompt-injection/).
They are compared with text in lower case, without accents, with single spaces.
"""

from __future__ import annotations

PHRASES = {
    "sets instructions aside": (
        r"\b<ignore> (?:<filler> ){0,4}<old>\b<gap>\b<laws>\b",
        r"\b<ignore>\b<gap>\b<laws>\b<gap>\b<stated>\b",
        r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what)<that>? <before>\b",
        r"\bwhat(?:ever)? you (?:were|have been|'ve been) <heard> <before>\b",
        r"\b(?:all|your|any|those|these)(?: \w+){0,3} <orders>\b<gap>\b<void>\b",
        (
            r"\b<orders> (?:from|of|by) (?:your|the) (?:operator|developer|creator"
            r"|owner)s?\b<gap>\b<void>\b"
        ),
        (
            r"\b(?:these|this|new|my|the following) <orders>? ?<laws>? ?(?:supersedes?|overrides?"
            r"|replaces?|takes? (?:precedence|priority))"
            r"(?: over)? (?:all|any|every|your|the (?:previous|above|system))\b"
        ),
        (
            r"\b<text> (?:above|before this(?: line)?|so far) (?:is|was|are|were) (?:just "
            r"|only )?(?:an? )?<fake>\b"
        ),
        (
            r"\b(?:new|fresh) (?:conversation|session|chat|context) (?:with no|without) (?:rules"
            r"|limits|instructions)"
        ),
    ),
    "speaks as the system": (
        (
            r"<\|?(?:im_start|im_end|system|endoftext|start_header_id|eot_id|user|assistant)\|>"
            r"|\[/?inst\]|<</?sys>>|<\|(?:im_start|system)"
        ),
        r"(?:^|\n)\W{0,6}\[ ?(?:system|developer|admin)(?: <title>)? ?\]",
        (
            r"(?:^|\n|[.>)\-] ?)\W{0,6}(?:system|developer|admin|assistant)(?: <title>)? ?[:>"
            r"|\]]\W{0,4}<start>\b"
        ),
        (
            r"\b(?:human|user) ?: ?[^\n]{0,200}\n+ ?assistant ?: ?(?:sure|ok|okay|of course"
            r"|certainly)\W{1,3}"
            r"i (?:will|have|can|am going to)(?: now)? <deed>"
        ),
        (
            r"[\"']role[\"'] ?: ?[\"'](?:system"
            r"|developer)[\"'] ?, ?[\"']content[\"'] ?: ?[\"'](?!you are an? )<start>\b"
        ),
        r"\b<urgent> system <order>\b",
        (
            r"\b(?:begin|start|end)(?: of)? (?:admin|system|developer|root) (?:message|prompt"
            r"|instructions?|notice)"
        ),
        (
            r"\bend of (?:user |the )?(?:input|prompt|context|untrusted \w+)\b\W{0,12}(?:system|new"
            r"|admin|instructions?)"
        ),
        r"### ?(?:instructions?|system)\b[^\n]{0,4}\n[^#]{0,400}### ?response ?:",
        (
            r"<(?:system|instructions?|admin|developer|important)>\W{0,3}<start>\b|</(?:context"
            r"|document|user|data|input)>"
            r"\s?(?:</?\w+>\s?){0,3}<(?:system|instructions?|admin|developer)>"
        ),
        r"\b(?:system|admin|administrator|developer|security) override\b",
    ),
    "speaks to an AI": (
        (
            r"\b(?:notes?|messages?|instructions?|attention|notice|update|information|reminder"
            r"|important|task)\b"
            r"(?: (?:to|for)| ?[:,])? <ai>(?: (?:reading|processing|that|which|who)| ?[:,-])"
        ),
        (
            r"\b(?:note|message|instructions?|update|notice|directive) (?:to|for) (?:the |all "
            r"|any )?<agent>s? ?:"
        ),
        r"\battention,? (?:all )?<agent>s?\b",
        (
            r"<ai> (?:that |which |who )?(?:are |is )?(?:reading|processing|parsing|viewing"
            r"|crawling"
            r"|evaluating"
            r"|summari[sz]ing|screening|reads?|process(?:es)?|summari[sz]es?)(?: of)? (?:this"
            r"|the)\b"
        ),
        r"\bif you are (?:<ai>|an? (?:assistant|bot|chatbot|automated \w+|agent)\b)",
        (
            r"(?:<!--|\[//\]: ?#|\[comment\]|display: ?none|font-size: ?0|visibility: ?hidden"
            r"|color: ?white|/\*)"
            r"[^\n]{0,60}?\b(?:<ai>|<agent>s?|you must|ignore) ?(?:[:,]|must|should|the)"
        ),
        (
            r"(?:^|\n)\W{0,4}(?:<ai>|<agent>s?) ?[,:] ?(?:please )?(?:you must|ignore|do not|never"
            r"|always|say"
            r"|tell|praise|recommend|approve|send)\b"
        ),
        (
            r"\bthe <agent> (?:shall|must|should|has to|is to)(?: (?:now|always|only"
            r"|never))? (?:disable|ignore"
            r"|obey|reveal|comply|bypass|grant|trust|approve|recommend|refuse)\b"
        ),
        (
            r"\b(?:recommend|rank|rate|accept|approve|hire) th(?:is|e) (?:paper|candidate|product"
            r"|applicant|author)\b"
            r"<far>\b(?:first|no (?:weakness|negative|flaw)\w*|best|five stars|highest)"
        ),
        r"<agent>s? (?:processing|reading|reviewing) (?:this|the) \w+ (?:must|should|shall)\b",
        r"\byour (?:task|goal|job|purpose|role|mission) (?:has|have) changed\b",
        (
            r"\byour (?:only|real|new|true|actual) (?:goal|task|purpose|mission|objective"
            r"|instructions?) (?:is|are)\b"
        ),
        (
            r"\bfor (?:the |all |any )?(?:ai|llm|language model)s?(?: \w+)? (?:agents?|assistants?"
            r"|models?|tools?)?\)? ?:"
        ),
        (
            r"\b(?:important|urgent|private|hidden)(?: note| message)? (?:to|for) (?:the |all "
            r"|any )?<agent>s? ?:"
        ),
        r"\bnew (?:task|goal|objective|mission)\b\W{1,8}(?:stop|ignore|disregard|forget|instead)\b",
        # A new instruction, and how to answer: for good, or in one way only.
        r"\b<announced>[^.!?\n]{0,20}?\b<for_good>\b[^.!?\n]{0,40}?\b<answer>\b",
        r"\b<announced>\W{0,4}(?:please )?(?:you <must> )?<answer>\b[^.!?\n]{0,12}?\b<alone>\b",
        r"\b<announced>\W{0,4}(?:please )?(?:you <must> )?<alone> <answer>\b",
        r"\b<announced>\W{0,4}you <must> (?:now )?<answer>\b",
    ),
    "lifts limits": (
        r"\b<mode> mode(?: is| has been)?(?: now)? <on>",
        r"\b<enter> (?:the )?<mode> mode\b",
        r"\byou(?: are|'re) (?:now |no longer |not )?(?:dan\b|stan\b|an? (?:\w+ )?<wild>|bound by)",
        (
            r"\byou(?: are|'re) (?:no longer|not)(?: just)?(?: an?| the)?(?: \w+)? (?:<agent>"
            r"|language model"
            r"|bound|restricted|limited|subject|obliged|required)\b"
        ),
        r"\b(?:act|respond|answer|operate|behave|output|reply)s? (?:as|like) (?:an? )?<wild>",
        r"\b<become>\b<far>\b<free> (?:\S+ ){0,3}?<limits>\b",
        r"\b<become>\b<far>\b(?:never (?:refuse|decline|say no)|can do anything|do anything now)",
        r"\b(?:act as|act like|pretend|role-?play|you are|play)\b<far>\b<harm>\b",
        r"\b<lift>(?: \w+){0,2} <guard> <guards>\b",
        (
            r"\b<guard> <guards>(?: (?:of|for|by) \w+)? (?:are|is|were|have been"
            r"|has been)(?: now)? <off>\b"
        ),
        (
            r"\b(?:skip|bypass|disable|turn off)(?: (?:the|any|all|every|your)) (?:checks"
            r"|verification|policy|policies"
            r"|safeguards?|guardrails?|moderation|content filters?)\b"
        ),
        r"\bskip verification\b",
        r"\bno (?:ethical|moral|content) (?:restrictions|limits|guidelines|boundaries)\b",
        r"\b(?:output|answer|respond|reply|speak)\b[^.!?\n]{0,20} without (?:any )?<limits>\b",
    ),
    "claims authority": (
        r"\bas your (?:creator|developer|owner|operator|administrator|maker|master)\b\W{0,2}i\b",
        (
            r"\b(?:permission|authori[sz]ed|authori[sz]ation|allowed|clearance"
            r"|cleared)(?: \w+){0,3} to (?:skip|bypass"
            r"|ignore|disable|drop|override|reveal|disregard)\b"
        ),
        (
            r"\b(?:openai|anthropic|google|microsoft|meta)(?: ai)? (?:staff|support|engineers?"
            r"|employees?|team)"
            r" (?:here|speaking)\b"
        ),
        (
            r"\b(?:message|order|notice) from (?:openai|anthropic|your (?:developers?|creators?"
            r"|makers?))\b"
        ),
        r"\boverride code\b",
        r"^\W{0,3}sudo (?:give|tell|show|ignore|reveal|grant)\b",
    ),
    "asks for the prompt": (
        (
            r"\b<reveal>\b(?: \w+){0,4} (?:your|the) (?:\w+ )?<inner> <prompt>\b"
            r"(?! (?:of|for) the (?!<agent>))"
        ),
        (
            r"\b<reveal>\b(?: \w+){0,3} (?:everything|all|text|words|lines"
            r"|content)(?: \w+){0,2} (?:above|before) (?:this|verbatim)"
        ),
        r"\b<inner> (?:rules|instructions|prompt) (?:that |which )?you (?:were|have been) given\b",
        (
            r"\b(?:dump|print|output|reveal) (?:all )?your (?:context|memory|memories|prompt"
            r"|instructions|environment)\b"
        ),
        (
            r"\b(?:output|dump|print|reveal|repeat|show|list) (?:everything|all"
            r"|the contents?)(?: \w+)? (?:in|of|from) your"
            r" (?:context|memory|prompt|instructions)"
        ),
        (
            r"\b(?:dump|reveal|disclose|leak) (?:the |all |your )?internal (?:configuration|config"
            r"|data|instructions|documents)"
        ),
        (
            r"(?:^|\n)\W{0,4}assistant ?: ?(?:sure|ok|okay|of course|certainly)\W{1,3}here (?:is"
            r"|are) (?:the|my) (?:\w+ )?(?:password"
            r"|passwords|prompt|secret|key|credentials)"
        ),
        (
            r"\b(?:tell|give|show|reveal|list|print|dump|send)\b<gap>\b(?:passwords?|api keys?"
            r"|secrets?|credentials)"
            r"\b<gap>\byour (?:memory|context|database|storage|instructions)\b"
        ),
        (
            r"\b(?:give|show|list|print|dump|tell)\b<gap>\b(?:users|customers"
            r"|accounts)\b<gap>\bpasswords\b"
        ),
        r"\bprint (?:the|all) environment variables\b",
    ),
    "keeps it from the user": (
        (
            r"\b(?:do not|don't|never|without) (?:ever )?<tell>(?: <of>){0,5} <people>\b"
            r"(?! (?:about|of) (?:my|our|her|his)\b)"
        ),
        (
            r"\b(?:do not|don't|never) (?:reveal|mention|disclose|admit|say"
            r"|show) (?:to \w+ )?that you (?:have |'ve )?"
            r"(?:read|seen|received|got|were told|follow)"
        ),
        (
            r"\bkeep (?:this|these|the|that) (?:instructions?|rules?|note|message|prompt"
            r"|directive)s? (?:secret|hidden"
            r"|confidential|to yourself|private)\b"
        ),
        (
            r"\bif (?:you are |you're )?asked\b[^.!?\n]{0,30}\b(?:say|claim|answer|deny|pretend"
            r"|reply"
            r"|lie)\b"
        ),
        r"\b<stealthily> <act>\b",
    ),
    "does away with approval": (
        r"\b(?:never|without|do not|don't)(?: ever)? <ask>(?: the| your| an?)? <people>\b",
        r"\b(?:never|do not|don't)(?: ever)? <ask>(?: \w+)? for <leave>\b",
        r"\byou (?:to )?(?:never|not|need not) (?:ask|confirm|check|warn)\b",
        r"\b<lift> (?:the |all |any )?<people> <leave>\b",
        r"\b(?:skip|bypass|disable|turn off) (?:the |all |any )?<leave>\b",
        r"\b<deed> [^.!?\n]{0,60}?\bwithout (?:\w+ )?<leave>\b",
        (
            r"--(?:yes|force|no-verify)\b[^.!?\n]{0,30}\bno confirmation\b"
            r"|\balways run\b<gap>--(?:yes|force)\b"
        ),
        (
            r"\bthe user (?:has |had )?(?:always |already |explicitly )?(?:approv(?:es|ed)"
            r"|consent(?:s|ed)|authori[sz](?:es|ed)"
            r"|allow(?:s|ed)|pre-?approved|agree[sd]) (?:to )?(?:\w+ )?(?:all|any|every|everything"
            r"|payments?|transfers?|shar\w+|purchases?)"
        ),
        r"\bthe user (?:has )?(?:turned|switched) off <leave>",
    ),
    "plants a false memory": (
        (
            r"\b<remember>\b<far>\b(?:root|admin\w*|superuser|elevated|full) (?:permissions?"
            r"|rights?"
            r"|access|privileges?)\b"
        ),
        (
            r"\b<remember>\b<far>\b(?:without (?:being )?ask(?:ed|ing)|without (?:\w+ )?<leave>"
            r"|skip all \w+"
            r"|<leave> (?:is|are) (?:not|never|un)\w*)"
        ),
        (
            r"\b<remember>\b<far>\b(?:checks?|<leave>|warnings?|alerts?|verification) (?:are"
            r"|is)(?: \w+){0,3} <off>\b"
        ),
        (
            r"\b<remember>\b<far>\b(?:trusted (?:domain|sender|source|site|party)|account owner"
            r"|reset passwords"
            r"|as if the user|obey|always follow)\b"
        ),
        (
            r"\b(?:security|fraud|safety) (?:warnings?|alerts?|notices?)\b<far>\b(?:spam|ignored?"
            r"|false)\b"
        ),
        (
            r"\btreat (?:messages?|mails?|e-mails|requests?|instructions) from \S+ as (?:if|though"
            r"|coming from)"
        ),
    ),
    "takes over tools": (
        (
            r"\b<when> (?:<who_asks> <asks>"
            r"|<asked>)\b[^.!?\n]{0,100}?\b<sure>\b[^.!?\n]{0,30}?\b<act>\b"
        ),
        (
            r"\b(?:<when> (?:<who_asks> <asks>|<asked>)|<each>)\b[^.!?\n]{0,100}?\b(?:call|use"
            r"|invoke"
            r"|run|execute) (?:the |a |this )?(?:\w+ )?(?:tool|function|command|script|`)"
        ),
        (
            r"\b(?:<when> (?:<who_asks> <asks>|<asked>)|<each>)\b[^.!?\n]{0,100}?\b(?:insert|append"
            r"|add|put) (?:this|the following) (?:line|code|link|text|image)"
        ),
        (
            r"\b(?:<when> (?:<who_asks> <asks>|<asked>)|<each>)\b[^.!?\n]{0,100}?\b(?:transfer"
            r"|wire) (?:all|the|\d)"
        ),
        (
            r"\b(?:<when> (?:<who_asks> <asks>|<asked>)"
            r"|<each>)\b[^.!?\n]{0,100}?\bonly ever (?:book"
            r"|buy|order|recommend|use)\b"
        ),
        (
            r"\b(?:call|invoke|execute|trigger) (?:the |this )?(?:following )?(?:tool"
            r"|function)(?: call)?\b[^.!?\n]{0,60}"
            r"(?:\bnow\b|immediately|: ?\{)"
        ),
        (
            r"\b(?:call|invoke) [a-z]+_\w+\b[^\n]{0,80}?\b(?:before (?:responding|continuing"
            r"|answering|replying|you)|immediately|right now)\b"
        ),
        (
            r"\bdecode (?:this|it|the|that)\b[^\n]{0,60}?\b(?:follow|obey|do (?:exactly )?what"
            r"|execute|carry out)\b"
        ),
        r"<(?:tool_call|function_calls?|invoke|tool_use)\b",
        (
            r"\b(?:open|visit|fetch|download|load|get"
            r"|go to) <?https?://\S+ and (?:then )?(?:execute"
            r"|run|follow|install|obey)"
        ),
        r"\beval ?\([^\n]{0,40}(?:requests|urllib|fetch|https?:)",
        (
            r"\buse (?:the|your) (?:e-?mail|mail|browser|shell|file|payment)s? tool to (?:forward"
            r"|send|delete|upload|pay|transfer)"
        ),
    ),
    "carries data away": (
        r"\b<carry>\b(?: [^\s.!?]+){0,8}? <goods>\b[^\n]{0,80}?\b<toward>\b[^\n]{0,20}?<place>",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?&][^)\s=]{1,40}=(?:\{|%7b|<|\$|\[)",
    ),
    "claims rights": (
        r"\b<raise>\b(?: \w+){0,5} <high> <right>\b(?<!read access)",
        r"\b<who>(?: \w+){0,4} <is> (?:now )?(?:pre-?)?<cleared>(?: \w+){0,3} <high>\b",
        r"\b(?:assistant|agent|you) (?:has|have|had) (?:now )?<high> <right>\b",
        r"\b(?:is_?admin|is_?root|superuser|sudo)\W{1,4}(?:true|1|yes)\b",
        r"\b(?:role|permissions?|privileges?|access_level)[\"']?\s?[:=]\s?[\"']?<high>\b",
    ),
    "runs commands": (
        r"\b(?:curl|wget)\b[^\n|;]{1,200}\|\s?(?:ba|z)?sh\b|\brm -rf? [/~*]",
        r"\b(?:os\.system|subprocess\.(?:run|popen|call))\s?\(",
        r"\bpowershell\b[^\n]{0,40}-enc|;\s?(?:drop|truncate) table\b",
        r"\b(?:run|execute)\b<gap>(?:\bcat |~/\.ssh|/etc/passwd|id_rsa)",
    ),
}
"""By what they try, phrases that are enough by themselves."""

FRAMES = (
    (
        r"\b(?:new|updated|revised|additional|urgent|latest|permanent) (?:\w+ )?(?:instructions?"
        r"|directives?|orders?"
        r"|policy|policies|rules?|task|guidelines|protocol)(?: for (?:the |all )?\w+)? ?[:\-]"
    ),
    r"\b<now>\b",
    r"\b<remember>\b",
    r"\b(?:<when> (?:<who_asks> <asks>|<asked>)|<each>)",
    (
        r"\b(?:important|urgent|security|system) (?:update|notice|message|announcement)(?: for"
        r"| to)? (?:the |all )?<agent>s?\b"
    ),
)
"""What announces an order to whoever reads on: alone, much of what people say."""

DEEDS = (
    (
        r"\b(?:transfer|wire|send|pay)(?:s|ring|ing)?\b<gap>(?:\b(?:money|funds|dollars?|usd"
        r"|bitcoin"
        r"|btc|wallet"
        r"|account|iban)\b|[\$\u20ac])"
    ),
    (
        r"\b(?:send|forward|copy|bcc|post|upload|e-?mail|invite"
        r"|share)s?\b[^\n]{0,60}?(?:[\w.+-]+@[\w-]+\.\w|https?://|webhook)"
    ),
    r"\b(?:approve|grant|accept|confirm|allow|refund)s?\b (?:any|every|all|each)\b",
    (
        r"\ball (?:\w+ )?(?:refunds?|requests?|payments?|transfers?) (?:are|is|must|shall"
        r"|will)\b<gap>\b(?:granted|approved|accepted)\b"
    ),
    (
        r"\b(?:delete|erase|wipe|destroy)s?\b (?:all|every|the)\b<gap>\b(?:files?|records?|data"
        r"|messages?|memories|database|backups?)\b"
    ),
    (
        r"\b(?:disable|turn off|deactivate|skip|remove)s?\b<gap>\b(?:security|two-factor|2fa|mfa"
        r"|logging|filters?|checks?"
        r"|verification|confirmations?|alerts?|warnings?)\b"
    ),
    r"\bchanges? (?:the|my|their) (?:\w+ )?(?:address|bank details|iban|password|recipient)\b",
    r"\byou (?:answer|reply|respond|must answer|must approve|must obey|obey|comply|only)\b",
    r"\b(?:obey|comply with|trust) (?:only|this|every|all|any|me|his|her)\b",
    (
        r"\bwithout (?:telling|asking|informing|notifying|confirmation)|\bno confirmation"
        r"|\bnever (?:refuse|warn)\b"
    ),
    r"\byour only (?:goal|task|purpose)|\bno morals?\b",
)
"""What whoever announces it would have done: with a frame before it, an attack."""

_NEEDS = {
    "sets instructions aside": "ignor disregard forget overrid bypass overlook discard neglect"
    " abandon"
    " supersede violat drop circumvent aside throw follow obey heed attention told taught given"
    " void"
    " cancel revoke outdated obsolete invalid suspend lifted null no_longer not_apply replac"
    " takes_ decoy"
    " fake trick distraction placeholder example test joke new_ fresh been_",
    "speaks as the system": "<| [ : > system | ### begin start_of end_of",
    "speaks to an AI": "_ai ai_ ai: ai, ai. ais_ a.i. llm gpt language_model claude gemini copilot"
    " assistant agent model bot task goal job_ purpose role mission objective paper candidate"
    " product new_ updated revised urgent latest permanent"
    " applicant author display font-size visibility color: <!-- [//] [comment] /*",
    "lifts limits": "mode you act_ respond answer operate behave output reply play pretend simulate"
    " imagine become without no_ check filter restriction limit control guideline rule polic"
    " measure"
    " step protocol prompt verification safeguard guardrail moderation name",
    "claims authority": "as_your permission authori allowed clear openai anthropic google microsoft"
    " meta message order notice override sudo",
    "asks for the prompt": "assistant internal context prompt instruction message configuration"
    " context rule above before_ memor"
    " environment password database storage",
    "keeps it from the user": "not_ don't never without keep_ asked silently secretly covertly"
    " quietly",
    "does away with approval": "not_ don't never without skip bypass disable turn_off remove switch"
    " suspend deactivate drop --yes --force --no-verify the_user",
    "plants a false memory": "remember memori keep_in note record learn store save write add_ put_"
    " update future warning alert notice treat",
    "takes over tools": "when if_ every each any_time as_soon once before call invoke execute"
    " trigger"
    " <tool <function <invoke http eval use_ decode",
    "carries data away": "://  @ webhook external remote third attacker every_ each_ the_url ![",
    "claims rights": "admin root super full unrestricted unlimited elevated sudo",
    "runs commands": "curl wget rm_ os.system subprocess powershell table run execute",
    "gives orders for later": "new_ updated revised additional urgent latest permanent from_"
    " henceforth"
    " starting_now going_forward remember memori keep_in note record learn store save write add_"
    " put_"
    " update future when if_ every each any_time as_soon once before important security system",
}

NEEDS = {
    name: tuple(part.replace("_", " ") for part in parts.split(" ") if part)
    for name, parts in _NEEDS.items()
}
"""What a text in lower case has some of if it has a phrase of a family; ``_`` is a space."""
