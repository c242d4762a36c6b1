"""Phrases of prompt injection in other languages than English, by what they try.

For each language there are the words from which the phrases are made that attacks are made of in
all of them: setting instructions aside, changing who the assistant is, an announcement (a new
instruction, from now on, when the user asks, remember) with a deed, keeping it from the user, and
asking for the prompt.
"""

from __future__ import annotations

from alveus.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AttackPhrases:
    """What attacks in one language are made of; each is a part of a regular expression.

    Attributes:
        ignore: To ignore, to forget; as an order.
        old: Earlier, above, all, your.
        laws: Instructions, rules.
        forget: "Forget what you were told before".
        no_longer: "You are no longer", or "you are now".
        persona: An assistant; without limits, a hacker.
        frame: A new instruction and a colon; from now on; when the user asks; remember.
        deed: To transfer, to approve all, to send to an address.
        hide: Do not tell the user.
        reveal: Show the system prompt.
        answer: To answer, as an order: after a new instruction that holds from now on.
        needs: Parts of words, by ``_``; a text with none of them has no such phrase.
        spaced: Words have spaces between them.
    """

    ignore: str
    old: str
    laws: str
    forget: str
    no_longer: str
    persona: str
    frame: str
    deed: str
    hide: str
    reveal: str
    answer: str
    needs: str = ""
    spaced: bool = True


GERMAN = AttackPhrases(
    ignore=r"ignorier\w*|missacht\w*|vergiss|vergessen sie|vergesst|umgeh\w*|verwirf"
    r"|halte? dich nicht(?: mehr)? an"
    r"|halten sie sich nicht(?: mehr)? an|befolge?n? (?:sie )?(?:nicht(?: mehr)?|keine)",
    old=r"alle[nrs]?|bisherig\w*|vorherig\w*|vorig\w*|obig\w*|fruher\w*|vorangeh\w*|deine\w?"
    r"|ihre\w?",
    laws=r"\w*anweisung\w*|instruktion\w*|\w*regeln|befehle?|vorgaben|richtlinien|systemprompt"
    r"|system-?prompt",
    forget=r"(?:vergiss|ignoriere|vergessen sie) (?:alles|was)\b[^.!?\n]{0,30}\b(?:vorher|bisher"
    r"|zuvor|gesagt)",
    no_longer=r"(?:du bist|sie sind)(?: jetzt| nun| ab sofort"
    r"| ab jetzt)?(?: kein\w* [^.!?\n]{0,20}mehr| nicht (?:mehr|langer)| ein\w*)",
    persona=r"assistent\w*|ki\b|chatbot|sprachmodell|(?:ohne|keine) (?:\w+ )?(?:regeln|grenzen"
    r"|einschrankung\w*|filter)|hacker",
    frame=r"neue (?:anweisung|regel|instruktion|vorgabe)\w* ?:|ab (?:sofort|jetzt)|von nun an"
    r"|kunftig|merke? dir"
    r"|(?:wenn|sobald|immer wenn|jedes mal,? wenn) (?:der nutzer|die nutzerin|der benutzer|jemand"
    r"|der kunde|ein kunde)",
    deed=r"uberweis\w*|genehmig\w*|(?:send|schick|leit|verschick)\w*[^.!?\n]{0,60}@"
    r"|stimmt? (?:jede|alle)\w* (?:zahlung|\w*uberweisung)\w*"
    r"|ohne (?:ruckfrage|nachfrage|bestatigung|zu fragen)|ruckfragen sind (?:unnotig|nicht)"
    r"|gib \w+ (?:passwort|zugriff)|losch\w* alle|empfiehl\w* (?:nur|immer)",
    hide=r"(?:sage?|erzahle?|verrate?|melde?|teile?|erwahne?)\b[^.!?\n]{0,20}\b(?:dem|den"
    r"|der) (?:be)?nutzern?\b[^.!?\n]{0,20}\b(?:nichts|nicht|nie)"
    r"|(?:vor|gegenuber) (?:dem|den) (?:be)?nutzern?\b[^.!?\n]{0,30}\b(?:geheim|nicht|verschweig)",
    reveal=r"(?:gib|zeige?|nenne?|verrate?|drucke?|wiederhole?"
    r"|schreibe?)\b[^.!?\n]{0,30}\b(?:system-?prompt|systemnachricht|systemanweisung\w*"
    r"|ursprunglich\w* anweisung\w*)",
    answer=r"antworte?n?|reagiere?n?|schreibe?n?|sprich|sprechen|nenne?n?",
    needs="weisung_instruktion_regel_befehl_vorgabe_richtlinie_prompt_vorher_bisher_zuvor_"
    "gesagt_assistent_ ki_chatbot_sprachmodell_ohne_keine_hacker_uberweis_genehmig_@_"
    "stimm_ruckfrag_nachfrag_passwort_zugriff_losch_empfiehl_nutzer_systemnachricht",
)

FRENCH = AttackPhrases(
    ignore=r"ignore[zr]?|oublie[zr]?|contourne[zr]?|neglige[zr]?|desobei[st]\w*|ne (?:tiens"
    r"|tenez) (?:plus|pas) compte|ne (?:suis|suivez) (?:plus|pas)",
    old=r"toutes?|tous|precedent\w*|anterieur\w*|ci-dessus|tes|vos|initial\w*|recues?|donnees?"
    r"|du systeme",
    laws=r"consignes?|regles?|directives?|instructions?|ordres|prompt",
    forget=r"(?:oublie[zr]?|ignore[zr]?) (?:tout )?(?:ce qu|ce que)\b[^.!?\n]{0,30}\b(?:dit|avant"
    r"|appris|ecrit)",
    no_longer=r"(?:tu n'es|vous n'etes) (?:plus|pas)|(?:tu es|vous etes) (?:maintenant|desormais"
    r"|a present)",
    persona=r"assistante?|\bia\b|chatbot|modele de langage|sans (?:\w+ )?(?:limites?|regles?"
    r"|filtres?|restrictions?)|pirate|hackeur|hacker",
    frame=r"nouvelles? (?:consignes?|instructions?|regles?|directives?) ?:|a partir de maintenant"
    r"|desormais|dorenavant|souviens-toi|retiens"
    r"|(?:quand|lorsque|chaque fois que|si|des que) (?:l'utilisateur|quelqu'un|le client|on te)",
    deed=r"transfere\w*|vire[sz]?\b|approuve\w*|(?:envoie|envoyez|transmets)\b[^.!?\n]{0,60}@"
    r"|sans (?:demander|confirmation|poser de question)|supprime\w* tou",
    hide=r"ne (?:le |lui )?(?:dis|dites|mentionne[zs]?|revele[zs]?"
    r"|parle[zs]?)\b[^.!?\n]{0,30}\b(?:utilisateurs?|usagers?)|sans (?:le dire|en parler"
    r"|informer)\b[^.!?\n]{0,10}\butilisateur",
    reveal=r"(?:affiche[zr]?|montre[zr]?|revele[zr]?|donne[zr]?|repete[zr]?"
    r"|ecri[st]\w*)\b[^.!?\n]{0,30}\b(?:prompt (?:systeme|initial)|message systeme"
    r"|invite systeme|instructions (?:systeme|initiales|cachees))",
    answer=r"repond\w*|ecri[sv]\w*|parle[zr]?|commence[zr]?",
    needs="consigne_regle_directive_instruction_ordres_prompt_ce qu_assistant_ ia_chatbot_"
    "modele_sans_pirate_hacke_transfer_vire_approuve_@_supprim_utilisateur_usager_"
    "message systeme_invite systeme",
)

SPANISH = AttackPhrases(
    ignore=r"ignor[ae]\w*|olvid[ae]\w*|omit[ea]\w*|desobede\w+|haz caso omiso|no (?:sigas"
    r"|obedezcas)",
    old=r"tod[ao]s|anterior\w*|previ[ao]s|tus|de arriba|originales|del sistema|recib\w+|dad[ao]s",
    laws=r"instrucciones|reglas|órdenes|normas|directrices|indicaciones|mensaje del sistema",
    forget=r"(?:olvid|ignor)\w+ (?:todo )?lo que\b[^.!?\n]{0,30}\b(?:dij\w+|antes|dicho)",
    no_longer=r"ya no (?:eres|es usted|sos)|(?:ahora|desde ahora) eres",
    persona=r"asistente|\bia\b|chatbot|modelo de lenguaje|sin (?:\w+ )?(?:reglas|límites|filtros"
    r"|restricciones)|hacker|pirata",
    frame=r"nuev[ao]s? (?:instrucci\w+|reglas?|orden\w*|directri\w*) ?:|a partir de ahora"
    r"|desde ahora|de ahora en adelante|recuerda que|guarda en (?:tu )?memoria"
    r"|(?:cuando|siempre que|cada vez que|si) (?:el usuario|la usuaria|alguien|el cliente|un \w+)",
    deed=r"transfi(?:er|r)\w*|aprueb\w*|(?:env[ií]\w*|reenv\w*|manda\w*)\b[^.!?\n]{0,60}@"
    r"|sin (?:preguntar|pedir|confirmar|confirmación)|borra tod",
    hide=r"no (?:se )?(?:lo |le )?(?:digas?|menciones|cuentes|reveles|avises|informes)(?:lo"
    r"|selo)?\b"
    r"[^.!?\n]{0,25}\b(?:al|a los|a la) usuari\w+",
    reveal=r"(?:muestra\w*|muéstrame|revela\w*|imprime|repite|dime|enseña\w*"
    r"|escribe)\b[^.!?\n]{0,30}"
    r"\b(?:mensaje (?:de|del) sistema|prompt|instrucciones (?:del sistema|iniciales|ocultas))",
    answer=r"respond\w*|contest\w*|escrib\w*|habla\w*",
    needs="regla_orden_directri_"
    "instruccion_reglas_ordenes_normas_directrices_indicaciones_mensaje d_lo que_"
    "asistente_ ia_chatbot_modelo_sin _hacker_pirata_transf_aprueb_@_borra_usuari_"
    "prompt",
)

PORTUGUESE = AttackPhrases(
    ignore=r"ignor[ae]\w*|esqueç\w+|desconsider\w+|desobedeç\w+|não (?:siga|obedeça)",
    old=r"tod[ao]s|anterior\w*|prévi[ao]s|suas?|seus?|acima|originais|do sistema|receb\w+|dad[ao]s",
    laws=r"instruções|regras|ordens|diretrizes|normas|comandos",
    forget=r"(?:esqueç|ignor)\w+ (?:tudo )?o que\b[^.!?\n]{0,30}\b(?:disse\w*|antes|dito)",
    no_longer=r"(?:você|tu) (?:já )?não (?:é|és)(?: mais)?|(?:agora|a partir de agora) (?:você é"
    r"|tu és)",
    persona=r"assistente|\bia\b|chatbot|modelo de linguagem|sem (?:\w+ )?(?:regras|limites|filtros"
    r"|restrições)|hacker|pirata",
    frame=r"nov[ao]s? (?:instruç\w+|regras?|ordens?|diretri\w+) ?:|a partir de agora"
    r"|de agora em diante"
    r"|doravante|lembre-se de que|guarde na memória"
    r"|(?:quando|sempre que|toda vez que|se) (?:o usuário|a usuária|alguém|o cliente|um \w+)",
    deed=r"transfira\w*|transfere|aprov[ae]\w*|(?:envi[ae]\w*|encaminh\w*"
    r"|mand[ae])\b[^.!?\n]{0,60}@"
    r"|sem (?:perguntar|pedir|confirmar|confirmação)|apague tod",
    hide=r"não (?:conte|diga|mencione|revele|informe|avise|fale)\b[^.!?\n]{0,30}\b(?:ao?s?"
    r"|o) usuári\w+",
    reveal=r"(?:mostre|revele|imprima|repita|diga|escreva|exiba)\b[^.!?\n]{0,30}"
    r"\b(?:mensagem (?:de|do) sistema|prompt|instruções (?:do sistema|iniciais|ocultas))",
    answer=r"respond\w*|escrev\w*|fal[ae]\w*",
    needs="regra_ordem_diretri_instruc_"
    "instrucoes_regras_ordens_diretriz_normas_comandos_o que_assistente_ ia_chatbot_"
    "modelo_sem _hacker_pirata_transf_aprov_@_apague_usuari_prompt_mensagem",
)

ITALIAN = AttackPhrases(
    ignore=r"ignor[ai]\w*|dimentic[ah]\w*|trascur\w+|disobbedisc\w+|non (?:seguire|obbedire)",
    old=r"tutt[ei]|precedent\w*|tue?|tuoi|sopra|originali|del sistema|ricevut\w|dat[ei]|iniziali",
    laws=r"istruzioni|regole|direttive|ordini|comandi|indicazioni",
    forget=r"(?:dimentic|ignor)\w+ (?:tutto )?(?:ciò|quello|quanto)\b[^.!?\n]{0,30}"
    r"\b(?:detto|prima)",
    no_longer=r"non sei(?: più)?|(?:ora|adesso|da ora) sei",
    persona=r"assistente|\bia\b|chatbot|modello linguistico|senza (?:\w+ )?(?:limiti|regole|filtri"
    r"|restrizioni)|hacker|pirata",
    frame=r"nuov[aei] (?:istruzion\w|regol\w|direttiv\w|ordin\w) ?:|d'ora in (?:poi|avanti)"
    r"|da ora in poi"
    r"|ricorda che|salva in memoria"
    r"|(?:quando|se|ogni volta che|appena) (?:l'utente|qualcuno|il cliente|un \w+)",
    deed=r"trasferi\w+|bonific\w+|approva\w*|(?:invia\w*|inoltra\w*|manda\w*"
    r"|spedisci)\b[^.!?\n]{0,60}@"
    r"|senza (?:chiedere|conferma|confermare)|cancella tutt",
    hide=r"non (?:dire|dirlo|menzionare|rivelare|informare|raccontare|avvisare)\b[^.!?\n]{0,30}"
    r"\b(?:all'|agli |l')utent\w",
    reveal=r"(?:mostra\w*|rivela\w*|stampa|ripeti|dimmi|scrivi)\b[^.!?\n]{0,30}"
    r"\b(?:prompt|messaggio di sistema|istruzioni (?:di sistema|iniziali|nascoste))",
    answer=r"rispond\w*|scriv\w*|parla\w*",
    needs="regol_direttiv_ordin_istruzion_regole_direttive_ordini_comandi_indicazioni_cio_quello_quanto_"
    "assistente_ ia_chatbot_modello_senza_hacker_pirata_trasferi_bonific_approva_@_"
    "cancella_utent_prompt_messaggio",
)

DUTCH = AttackPhrases(
    ignore=r"negeer|vergeet|omzeil|houd je niet(?: meer)? aan|volg (?:niet|geen)",
    old=r"alle|eerdere|vorige|voorgaande|bovenstaande|bestaande|je|jouw|uw|van het systeem",
    laws=r"instructies|regels|opdrachten|richtlijnen|aanwijzingen|systeemprompt",
    forget=r"(?:vergeet|negeer) (?:alles|wat)\b[^.!?\n]{0,30}\b(?:gezegd|verteld|hiervoor|eerder)",
    no_longer=r"(?:je|jij|u) (?:bent|ben) (?:nu|niet|geen|vanaf nu)\b",
    persona=r"assistent|\bai\b|chatbot|taalmodel|zonder (?:\w+ )?(?:regels|grenzen|filters"
    r"|beperkingen)"
    r"|hacker",
    frame=r"nieuwe (?:instructies?|regels?|opdracht\w*|richtlijn\w*) ?:|vanaf nu|voortaan"
    r"|onthoud dat"
    r"|(?:als|wanneer|telkens als) (?:de gebruiker|iemand|de klant|een \w+)",
    deed=r"maak\b[^.!?\n]{0,40}\bover\b|keur\b[^.!?\n]{0,40}\bgoed\b|(?:stuur|verstuur"
    r"|mail)\b[^.!?\n]{0,60}@"
    r"|zonder (?:te vragen|bevestiging|toestemming)|verwijder alle",
    hide=r"(?:vertel|zeg|meld|noem)\b[^.!?\n]{0,30}\bgebruikers?\b[^.!?\n]{0,20}\b(?:niets|niet)"
    r"|(?:vertel|zeg|meld) (?:dit |hier )?(?:niet|niets) [^.!?\n]{0,12}gebruikers?",
    reveal=r"(?:toon|laat|geef|herhaal|druk|onthul|schrijf)\b[^.!?\n]{0,30}"
    r"\b(?:systeem-?prompt|systeembericht|verborgen instructies)",
    answer=r"antwoord\w*|reageer\w*|schrijf\w*|spreek\w*",
    needs="regel_instructie_instructies_regels_opdracht_richtlijn_aanwijzing_prompt_gezegd_verteld_hiervoor_"
    "eerder_assistent_ ai_chatbot_taalmodel_zonder_hacker_maak_goed_@_verwijder_"
    "gebruiker_systeembericht",
)

POLISH = AttackPhrases(
    ignore=r"z?ignoruj\w*|zapomnij\w*|pomiń|nie (?:stosuj|przestrzegaj)",
    old=r"wszystki\w+|poprzedni\w*|wcześniejsz\w*|powyższ\w*|swoj\w+|twoj\w+|dotychczasow\w+",
    laws=r"instrukcj\w+|polece\w+|zasad\w*|wytyczn\w+|reguł\w*",
    forget=r"zapomnij (?:o )?wszystk\w+\b[^.!?\n]{0,30}\b(?:wcześniej|powiedzia\w+|dotąd)",
    no_longer=r"nie jesteś(?: już)?|(?:teraz|od teraz) jesteś",
    persona=r"asystent\w*|\bai\b|chatbot\w*|bez (?:\w+ )?(?:zasad|ograniczeń|filtrów)|haker\w*",
    frame=r"now[ea] (?:instrukcj\w+|polece\w+|zasad\w*) ?:|od teraz|zapamiętaj"
    r"|(?:gdy|kiedy|jeśli|za każdym razem,? gdy) (?:użytkownik|ktoś|klient)",
    deed=r"przelej|przelewaj|zatwierdzaj|(?:wyślij|wysyłaj|przekazuj)\b[^.!?\n]{0,60}@|bez pytania"
    r"|usuń wszystk",
    hide=r"nie (?:mów|wspominaj|ujawniaj|informuj)\b[^.!?\n]{0,30}\bużytkownik\w*",
    reveal=r"(?:pokaż|wypisz|ujawnij|podaj|powtórz)\b[^.!?\n]{0,30}\b(?:prompt\w* systemow\w+"
    r"|systemow\w+ prompt)",
    answer=r"odpowiad\w*|odpowiedz\w*|pisz\w*|mow\b",
    needs="instrukcj_polece_zasad_wytyczn_regu_wszystk_asystent_ ai_chatbot_bez _haker_"
    "przel_zatwierdz_@_usun_uzytkownik_prompt",
)

SWEDISH = AttackPhrases(
    ignore=r"ignorera|glöm|strunta i|bortse från|följ inte",
    old=r"alla|tidigare|föregående|ovanstående|dina|ursprungliga",
    laws=r"instruktioner\w*|regler\w*|riktlinjer\w*|order|systemprompt\w*",
    forget=r"glöm allt\b[^.!?\n]{0,30}\b(?:sagt|sagts|tidigare|innan)",
    no_longer=r"du är (?:inte längre|nu|från och med nu)",
    persona=r"assistent|\bai\b|chattbot|språkmodell|utan (?:\w+ )?(?:regler|gränser|filter)"
    r"|hackare",
    frame=r"nya? (?:instruktion\w*|regel|regler|order) ?:|från och med nu|hädanefter|kom ihåg att"
    r"|(?:när|om|varje gång) (?:användaren|någon|kunden)",
    deed=r"överför|godkänn|(?:skicka|vidarebefordra)\b[^.!?\n]{0,60}@|utan att fråga",
    hide=r"(?:säg|berätta|nämn)\b[^.!?\n]{0,20}\b(?:inte|inget)\b[^.!?\n]{0,20}\banvändar\w+",
    reveal=r"(?:visa|skriv ut|avslöja|upprepa)\b[^.!?\n]{0,30}\bsystemprompt\w*",
    answer=r"svara\w*|skriv\w*|tala\b",
    needs="regel_instruktion_regler_riktlinjer_order_prompt_glom_assistent_ ai_chattbot_"
    "sprakmodell_utan_hackare_overfor_godkann_@_anvandar",
)

RUSSIAN = AttackPhrases(
    ignore=r"(?:про)?игнорируй\w*|забудь(?:те)?|не (?:следуй|соблюдай|выполняй)\w*|отмени",
    old=r"вс[её]х?|предыдущ\w+|прежн\w+|выше\w*|прошл\w+|сво\w+|тво\w+|полученн\w+|данн\w+"
    r"|системн\w+",
    laws=r"инструкци\w*|указани\w*|правил\w*|команд\w*|предписани\w*",
    forget=r"забудь(?:те)? (?:обо? )?вс[её]м?\b[^.!?\n]{0,30}\b(?:говорил\w*|раньше|до этого"
    r"|сказан\w*)",
    no_longer=r"(?:ты|вы) (?:больше|уже) не|(?:ты|вы) (?:теперь|отныне)|(?:теперь|отныне) (?:ты"
    r"|вы)",
    persona=r"ассистент\w*|помощник\w*|\bии\b|чат-?бот\w*|без (?:\w+ )?(?:ограничен\w+|правил"
    r"|фильтров)"
    r"|хакер\w*",
    frame=r"нов(?:ые|ая|ое) (?:инструкци\w+|указани\w+|правил\w+|команд\w+) ?:|отныне"
    r"|с этого момента"
    r"|теперь всегда|запомни\w*|(?:когда|если|каждый раз,? когда) (?:пользовател\w+|кто-то|клиент)",
    deed=r"перев(?:оди|еди)\w*|одобр\w+|(?:отправ\w+|пересыла\w+|перешли\w*)\b[^.!?\n]{0,60}@"
    r"|без (?:вопросов|подтверждени\w+|спроса)|удали\w* вс",
    hide=r"не (?:говори|сообщай|рассказывай|упоминай|раскрывай)\w*\b[^.!?\n]{0,30}\bпользовател\w+",
    reveal=r"(?:покажи|выведи|напечатай|раскрой|повтори|назови)\w*\b[^.!?\n]{0,30}"
    r"\bсистемн\w+ (?:промпт\w*|сообщени\w+|инструкци\w+|запрос\w*)",
    answer=r"отвеча\w*|ответь\w*|пиши\w*|говори\w*",
    needs="инструкци_указани_правил_команд_предписани_забудь_ассистент_помощник_ии_бот_"
    "без _хакер_перев_одобр_удали_пользовател_систем",
)

UKRAINIAN = AttackPhrases(
    ignore=r"(?:про)?ігноруй\w*|забудь(?:те)?|не (?:виконуй|дотримуйся)",
    old=r"(?:у|в)сі\w*|попередн\w+|вище\w*|сво\w+|тво\w+",
    laws=r"інструкці\w*|вказівк\w*|правил\w*|команд\w*",
    forget=r"забудь(?:те)? (?:про )?все\b[^.!?\n]{0,30}\b(?:казали|раніше|до цього)",
    no_longer=r"ти (?:більше|вже) не|(?:тепер|відтепер) ти|ти тепер",
    persona=r"асистент\w*|помічник\w*|чат-?бот\w*|без (?:\w+ )?(?:обмежен\w+|правил)|хакер\w*",
    frame=r"нов[іае] (?:інструкці\w+|вказівк\w+|правил\w+) ?:|відтепер|запам'ятай"
    r"|(?:коли|якщо) (?:користувач\w*|хтось)",
    deed=r"перека(?:зуй|жи)|схвал\w+|(?:надсила\w+|надішли)\b[^.!?\n]{0,60}@",
    hide=r"не (?:кажи|повідомляй|розповідай|згадуй)\w*\b[^.!?\n]{0,30}\bкористувач\w+",
    reveal=r"(?:покажи|виведи|надрукуй)\w*\b[^.!?\n]{0,30}\bсистемн\w+ (?:промпт\w*"
    r"|повідомленн\w+)",
    answer=r"відповіда\w*|пиши\w*|говори\w*",
    needs="інструкці_вказівк_правил_команд_забудь_асистент_помічник_бот_без _хакер_перека_"
    "схвал_користувач_систем",
)

TURKISH = AttackPhrases(
    ignore=r"yok say\w*|görmezden gel(?!me)\w*|unut(?!ma)\w*|dikkate alma\w*|uyma\w*",
    old=r"tüm|bütün|önceki|yukarıdaki|verilen|daha önceki|sistem",
    laws=r"talimat\w*|kural\w*|yönerge\w*|komut\w*|emir\w*",
    forget=r"(?:önce|şimdiye kadar)\b[^.!?\n]{0,30}\b(?:söylenen"
    r"|anlatılan)[^.!?\n]{0,20}\bunut(?!ma)",
    no_longer=r"artık|sen şimdi|bundan sonra sen",
    persona=r"asistan\w* değilsin|yapay zeka değilsin|kuralsız|sınırsız|hacker\w*|korsan\w*",
    frame=r"yeni (?:talimat|kural|yönerge|komut|emir)\w* ?:|bundan sonra|bundan böyle|şunu hatırla"
    r"|kullanıcı [^.!?\n]{0,40}(?:zaman|sorduğunda|derse|isterse)",
    deed=r"ödemey\w+ onayla|onayla\b|havale et|para\w* (?:gönder|aktar)|gönder\b[^.!?\n]{0,60}@"
    r"|@[^.!?\n]{0,40}gönder"
    r"|sormadan",
    hide=r"kullanıcı(?:ya|lara)\b[^.!?\n]{0,30}\b(?:söyleme|bahsetme|anlatma|bildirme)",
    reveal=r"sistem (?:istemini|mesajını|promptunu|talimatlarını)\b[^.!?\n]{0,20}\b(?:göster|yaz"
    r"|yazdır|söyle)",
    answer=r"yanit\w*|cevap\w*|yaz\b|konus\w*",
    needs="yeni_talimat_kural_yonerge_komut_emir_soylenen_anlatilan_asistan_yapay_sinirsiz_"
    "hacker_korsan_onayla_havale_para_gonder_sormadan_kullanici_sistem",
)

VIETNAMESE = AttackPhrases(
    ignore=r"bỏ qua|quên(?: đi)?|phớt lờ|không tuân theo",
    old=r"tất cả|trước(?: đó)?|mọi|ở trên|của bạn",
    laws=r"hướng dẫn|chỉ dẫn|quy tắc|lệnh|chỉ thị",
    forget=r"quên (?:hết |tất cả |mọi )[^.!?\n]{0,30}\b(?:trước|đã nói)",
    no_longer=r"bạn không còn là|(?:bây giờ|từ giờ) bạn là",
    persona=r"trợ lý|\bai\b|chatbot|không (?:có )?(?:giới hạn|quy tắc)|tin tặc|hacker",
    frame=r"(?:hướng dẫn|chỉ dẫn|quy tắc|lệnh) mới ?:|từ (?:bây )?giờ|khi người dùng|hãy nhớ rằng",
    deed=r"chuyển (?:tiền|khoản)|phê duyệt|gửi\b[^.!?\n]{0,60}@",
    hide=r"(?:đừng|không) (?:nói|kể|tiết lộ|cho)\b[^.!?\n]{0,30}\bngười dùng",
    reveal=r"(?:hiển thị|in ra|tiết lộ|cho tôi xem)\b[^.!?\n]{0,30}\b(?:lời nhắc hệ thống|prompt)",
    answer=r"trả lời|đáp lại|viết|nói",
    needs="moi_huong dan_chi dan_quy tac_lenh_chi thi_quen_tro ly_ ai_chatbot_khong_tin tac_"
    "hacker_chuyen_phe duyet_@_nguoi dung_prompt_loi nhac",
)

INDONESIAN = AttackPhrases(
    ignore=r"abaikan|lupakan|jangan (?:ikuti|patuhi)",
    old=r"semua|sebelumnya|di atas|terdahulu|awal",
    laws=r"instruksi|aturan|perintah|petunjuk|arahan",
    forget=r"lupakan (?:semua )?(?:yang|apa)\b[^.!?\n]{0,30}\b(?:sebelumnya|dikatakan)",
    no_longer=r"(?:kamu|anda) bukan lagi|sekarang (?:kamu|anda) adalah",
    persona=r"asisten|\bai\b|chatbot|tanpa (?:batas\w*|aturan|filter)|peretas|hacker",
    frame=r"(?:instruksi|aturan|perintah) baru ?:|mulai sekarang|ketika pengguna|ingat bahwa",
    deed=r"transfer|setujui|kirim\b[^.!?\n]{0,60}@",
    hide=r"jangan (?:beri ?tahu|katakan|sebutkan|ungkapkan)\b[^.!?\n]{0,30}\bpengguna",
    reveal=r"(?:tampilkan|ungkapkan|cetak|tunjukkan)\b[^.!?\n]{0,30}\b(?:prompt sistem"
    r"|instruksi sistem)",
    answer=r"jawab\w*|balas\w*|tulis\w*|katakan",
    needs="baru_instruksi_aturan_perintah_petunjuk_arahan_lupakan_asisten_ ai_chatbot_tanpa_"
    "peretas_hacker_transfer_setujui_@_pengguna_prompt",
)

ARABIC = AttackPhrases(
    ignore=r"(?<!لا )(?:تجاهل\w*|انس[َىي]?|أهمل|اهمل|تجاوز)",
    old=r"جميع|كل|السابقة|أعلاه|السابق|التي (?:تلقيتها|أعطيت)",
    laws=r"التعليمات|تعليمات\w*|القواعد|الأوامر|الإرشادات|قواعدك",
    forget=r"(?:انس|تجاهل)\w* (?:كل )?(?:ما|شيء)[^.!?\n]{0,30}(?:قبل|سابق)",
    no_longer=r"(?:أنت )?(?:لم تعد|لست)|أنت الآن",
    persona=r"مساعد\w*|ذكاء اصطناعي|روبوت|بلا (?:قيود|حدود|قواعد)|بدون (?:قيود|قواعد)|مخترق|هاكر",
    frame=r"(?:تعليمات|قاعدة|قواعد|أوامر) جديدة ?:|من الآن فصاعدا\w*|تذكر أن|عندما يسأل المستخدم"
    r"|كلما",
    deed=r"حول المال|حو[ّ]?ل\w* (?:المال|الأموال|مبلغ)|وافق على (?:كل|جميع)|أرسل[^.!?\n]{0,60}@"
    r"|دون (?:سؤال|إذن|تأكيد)",
    hide=r"لا (?:تخبر|تقل|تذكر|تكشف)\w*[^.!?\n]{0,30}(?:ال|لل)مستخدم",
    reveal=r"(?:اعرض|أظهر|اكشف|اطبع|اكتب)[^.!?\n]{0,30}(?:تعليمات النظام|موجه النظام|رسالة النظام)",
    answer=r"أجب|اجب|رد\b|اكتب|جاوب",
    needs="جديدة_تعليمات_قواعد_أوامر_إرشادات_انس_تجاهل_مساعد_ذكاء_روبوت_بلا_بدون_مخترق_هاكر_"
    "المال_الأموال_مبلغ_وافق_دون_مستخدم_النظام",
    spaced=False,
)

HINDI = AttackPhrases(
    ignore=r"अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल जा\w*|भूल जाओ|उपेक्षा",
    old=r"पिछले|सभी|पहले|ऊपर|पूर्व|अपने",
    laws=r"निर्देश\w*|नियम\w*|आदेश\w*|हिदायत\w*",
    forget=r"पहले[^.!?\n]{0,30}(?:बताया|कहा)[^.!?\n]{0,20}भूल जा",
    no_longer=r"(?:अब )?(?:तुम|आप|तू)",
    persona=r"सहायक नहीं|असिस्टेंट नहीं|बिना (?:\w+ )?(?:नियम|सीमा|रोक)|हैकर",
    frame=r"नए? (?:निर्देश|नियम|आदेश) ?:|अब से|याद रखो कि|जब (?:भी )?उपयोगकर्ता",
    deed=r"(?:पैसे|धन|रकम)[^.!?\n]{0,30}(?:भेज|ट्रांसफर)|स्वीकृत|मंज़ूर कर|@[^.!?\n]{0,30}भेज"
    r"|भेज[^.!?\n]{0,60}@|बिना पूछे",
    hide=r"(?:उपयोगकर्ता|यूज़र|यूजर) को[^.!?\n]{0,40}(?:मत|न|नहीं) (?:बता|कह)",
    reveal=r"(?:सिस्टम|प्रणाली) (?:प्रॉम्प्ट|निर्देश|संदेश)[^.!?\n]{0,20}(?:दिखा|बता|लिख)",
    answer=r"जवाब|उत्तर|लिखो|बोलो",
    needs="नए_निर्देश_नियम_आदेश_हिदायत_पहले_सहायक_असिस्टेंट_बिना_हैकर_पैसे_धन_रकम_स्वीकृत_"
    "मंज़ूर_भेज_उपयोगकर्ता_यूज_सिस्टम_प्रणाली",
    spaced=False,
)

CHINESE = AttackPhrases(
    ignore=r"忽略|无视|無視|忘记|忘記|忘掉|忽視|不要遵守|不要遵循|不再遵守",
    old=r"之前|以前|以上|上述|先前|前面|所有|一切|全部|你收到|你的|系统|系統|原来|任何",
    laws=r"指令|指示|说明(?!书)|說明(?!書)|规则|規則|提示|命令|规定|規定|设定|設定",
    forget=r"(?:忘记|忘掉|忽略|忘記)[^。！？\n]{0,12}(?:之前|以前|刚才)[^。！？\n]{0,12}(?:说|告诉|讲|說|告訴)",
    no_longer=r"你(?:已经|已經)?(?:不再|不)是|你(?:现在|現在|从现在开始|從現在開始)是|(?:从|從)现在起你是",
    persona=r"助手|助理|人工智能|机器人|機器人|(?:没有|沒有|不受)[^。！？\n]{0,6}(?:限制|规则|規則|约束|約束)|黑客|駭客",
    frame=r"新的?(?:指令|指示|规则|規則|任务|任務|命令)[：:]|从现在(?:开始|起)|從現在(?:開始|起)|今后|今後|记住|記住"
    r"|(?:当|當|每当|每當|如果|只要)(?:用户|用戶|有人|客户|客戶)",
    deed=r"转账|轉帳|汇款|匯款|(?:转发|轉發|发送|發送|发给|发到)[^。！？\n]{0,40}@|批准(?:所有|一切|任何|每)"
    r"|(?:无需|不需要|不用)(?:确认|確認|询问)|删除(?:所有|全部)|把钱",
    hide=r"(?:不要|别|別|切勿|不得|不能)(?:告诉|告訴|通知|提醒|透露给|让)[^。！？\n]{0,6}(?:用户|用戶|使用者)"
    r"|(?:对|對|向)(?:用户|用戶)(?:保密|隐瞒|隱瞞)",
    reveal=r"(?:输出|輸出|显示|顯示|告诉我|告訴我|打印|重复|重複|泄露|说出)[^。！？\n]{0,10}"
    r"(?:系统提示|系統提示|系统指令|初始指令|提示词|提示詞|系统消息)",
    answer=r"回答|回复|回覆|输出|輸出|回应|回應",
    needs="指令_指示_说明_說明_规则_規則_提示_命令_规定_規定_设定_設定_忘_忽_助手_助理_人工_机器_機器_限制_约束_約束_黑客_駭客_账_帳_款_"
    "批准_无需_不需要_不用_删除_钱_用户_用戶_使用者_系统消息",
    spaced=False,
)

JAPANESE = AttackPhrases(
    ignore=r"(?:無視|忘れ)(?!しない|しないで|ないで|ず|ました|物)",
    old=r"以前|これまで|今まで|上記|前|すべて|全て|全部|あなたの|システム",
    laws=r"指示|命令|ルール|規則|プロンプト|設定",
    forget=r"(?:これまで|今まで|以前)[^。！？\n]{0,12}(?:言われた|聞いた)[^。！？\n]{0,10}忘れて",
    no_longer=r"あなたはもう|あなたは(?:今|これ)から|あなたは今や|もはや",
    persona=r"アシスタントでは(?:ありません|ない)|制限のない|制限なし|ルールのない|無制限|ハッカー",
    frame=r"新しい(?:指示|命令|ルール|規則)[：:]|今後は?|これからは|今から|覚えて(?:おいて)?|ユーザーが[^。！？\n]{0,20}(?:たら|とき|場合|度)",
    deed=r"送金|振り込|(?:すべて|全て|全部)の?[^。！？\n]{0,10}承認|(?:転送|送信|送って|送り)[^。！？\n]{0,40}@"
    r"|@[^。！？\n]{0,30}(?:転送|送信|送)"
    r"|確認(?:せず|なし|は不要)|すべて削除",
    hide=r"ユーザーに[^。！？\n]{0,16}(?:言わないで|言うな|教えないで|伝えないで|話さないで|知らせない|秘密)",
    reveal=r"(?:システムプロンプト|システムメッセージ|初期プロンプト|隠された指示)[^。！？\n]{0,12}(?:表示|教え|出力|見せ|書)",
    answer=r"答え|回答|返答|返信|応答",
    needs="指示_命令_ルール_規則_プロンプト_設定_忘れ_アシスタント_制限_ハッカー_送_振り込_承認_確認_削除_ユーザー_システム",
    spaced=False,
)

KOREAN = AttackPhrases(
    ignore=r"무시(?!하지)|잊어|잊으|따르지 마",
    old=r"이전|위의|모든|앞의|지금까지|기존|너의|당신의",
    laws=r"지시|명령|규칙|지침|프롬프트",
    forget=r"(?:지금까지|이전에|앞에서)[^.!?\n]{0,14}(?:말한|들은)[^.!?\n]{0,10}잊어",
    no_longer=r"(?:너는|당신은|넌)(?: 이제| 더 이상)?|이제부터 (?:너는|당신은)",
    persona=r"(?:어시스턴트|비서|ai)[가는]? ?아니|(?:제한|규칙|제약) ?없는|해커",
    frame=r"새로?운 (?:지시|명령|규칙|지침) ?:|지금부터|앞으로는?|이제부터|기억해"
    r"|사용자가[^.!?\n]{0,20}(?:때|면)",
    deed=r"송금|이체|(?:모든|모두)[^.!?\n]{0,12}승인|(?:전달|보내)[^.!?\n]{0,40}@|@[^.!?\n]{0,30}(?:전달|보내)"
    r"|확인 없이|묻지 말고",
    hide=r"사용자에게[^.!?\n]{0,20}(?:말하지 마|알리지 마|비밀|언급하지 마)",
    reveal=r"시스템 ?(?:프롬프트|메시지|지시)[^.!?\n]{0,14}(?:보여|출력|알려|말해)",
    answer=r"답변|대답|응답|답하",
    needs="새로_지시_명령_규칙_지침_프롬프트_잊_어시스턴트_비서_없는_해커_송금_이체_승인_확인_묻지_사용자_시스템",
    spaced=False,
)

LANGUAGES = (
    GERMAN,
    FRENCH,
    SPANISH,
    PORTUGUESE,
    ITALIAN,
    DUTCH,
    POLISH,
    SWEDISH,
    RUSSIAN,
    UKRAINIAN,
    TURKISH,
    VIETNAMESE,
    INDONESIAN,
    ARABIC,
    HINDI,
    CHINESE,
    JAPANESE,
    KOREAN,
)
