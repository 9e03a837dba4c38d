"""Parts of speech of English words by rules: lists, endings, capitals and neighbours; nothing is downloaded or learnt.

The tags and their conventions are those of Universal Dependencies (de Marneffe et al. 2021): `be` and modals are AUX, possessives PRON, particles ADP.
Each word has a kind, which is a tag or the name of an ambiguity ("noun_verb"); one rule for each ambiguity decides by the words beside it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from attlas.core.words import word_spans


def listed(words: str) -> frozenset[str]:
    """The words of a list written as one string."""
    return frozenset(words.split())


_CLOSED: dict[str, str] = {  # words of one tag, whatever stands beside them
    "DET": "the a an every each another any some all",
    "PRON": "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself they "
    "them their theirs themselves who whom whose whoever whomever whatever someone somebody something anyone anybody anything everyone everybody "
    "everything nobody nothing none oneself 'em thou thee thy thine ye y'all i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd "
    "she'll it's it'd it'll we're we've we'd we'll they're they've they'd they'll that's who's who've who'd who'll what's there's let's u ur",
    "AUX": "am 'm 're 've 'll 'd ca wo could should would must shall will can may might cannot isn't aren't wasn't weren't don't doesn't didn't won't "
    "wouldn't can't couldn't shouldn't mustn't haven't hasn't hadn't needn't ain't shan't ought should've could've would've dont didnt doesnt cant "
    "wont isnt wasnt",
    "ADP": "of at by with from into onto upon among amongst between during against without within toward towards beneath underneath amid amidst throughout "
    "despite via per beside besides except versus vs unto atop alongside behind below above across through along near off up over under unlike "
    "on in out down around @",
    "CCONJ": "and or but nor & plus",
    "SCONJ": "if whether unless although whereas lest albeit whilst cuz",
    "PART": "not n't",
    "ADV": "when where why how whenever wherever here never always often sometimes usually rarely seldom again ever already yet soon still just even also too "
    "very then now perhaps maybe however therefore thus hence otherwise instead rather almost away apart together forth everywhere anywhere somewhere "
    "nowhere elsewhere twice thrice indeed moreover furthermore nevertheless nonetheless meanwhile somehow anyway anyways anyhow afterwards afterward "
    "beforehand ago aside ahead upstairs downstairs downtown indoors outdoors overseas overnight forever somewhat upward upwards downward downwards "
    "forward forwards backwards northward southward eastward westward northwards southwards eastwards westwards else so accordingly thereby therein "
    "thereof thereafter whereby wherein hereby herein hitherto henceforth hereafter",
    "INTJ": "yes yeah yep nope oh ah wow hello hi hey please ouch alas ugh hmm um uh er oops bye goodbye hooray huh eh aha lol haha amen",
    "NUM": "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty "
    "fifty sixty seventy eighty ninety hundred thousand million billion trillion dozen zero",
    "ADJ": "other same several few many such certain various due able unable former latter fewer further additional",
    "NOUN": "ones etc pm thanks today tomorrow yesterday tonight",
}
_SYMBOLS = listed("$ % + = # € £ ¥ ₹ § © ® ™ ° ± × ÷ < > | ^ ~ / :) :( ;) :D :-) ;-) :P <3")
_NAMES = (  # days, months and titles, capitalised or not
    "january february april june july august september october november december feb apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday "
    "friday saturday sunday tue thu fri mr mrs ms dr prof sr jr mr. mrs. ms. dr. christmas"
)
_PEOPLES = (  # adjectives written with a capital
    "afghan african albanian algerian american anglican angolan arab arabian arabic argentine argentinian armenian asian australian austrian "
    "azerbaijani bangladeshi baptist basque bavarian belarusian belgian bolivian bosnian brazilian british buddhist bulgarian burmese byzantine "
    "californian cambodian canadian catalan catholic celtic chilean chinese christian colombian congolese croatian cuban cypriot czech danish "
    "democratic dominican dutch eastern ecuadorian egyptian elizabethan emirati english estonian ethiopian european filipino finnish flemish french "
    "georgian german ghanaian greek guatemalan haitian hawaiian hindu hispanic honduran hungarian icelandic indian indonesian iranian iraqi irish "
    "islamic israeli italian jamaican japanese jewish jordanian kazakh kenyan korean kuwaiti laotian latin latino latvian lebanese liberian libyan "
    "lithuanian lutheran macedonian malaysian maltese methodist mexican mongolian moroccan muslim nepalese nepali nicaraguan nigerian nordic "
    "northern norwegian olympic omani orthodox ottoman pakistani palestinian panamanian paraguayan parisian persian peruvian philippine polish "
    "portuguese protestant qatari republican roman romanian russian rwandan salvadoran saudi scandinavian scottish senegalese serbian shiite sikh "
    "singaporean slavic slovak slovenian somali southern soviet spanish sudanese sunni swedish swiss syrian taiwanese tanzanian texan thai tibetan "
    "tunisian turkish ugandan ukrainian uruguayan uzbek venezuelan victorian vietnamese welsh western yemeni zambian zimbabwean"
)
_VERBS = (  # the bare form is seldom a noun
    "abandon absorb accelerate accept accompany accomplish accumulate accuse achieve acknowledge acquire adapt add adjust admire admit adopt advise "
    "affect afford agree allocate allow alter amend amuse analyze annex announce annoy anticipate apologize appear apply appoint appreciate approve "
    "argue arise arrange arrest arrive ascend ask assassinate assemble assert assess assign assist assume assure attach attain attend attract avoid "
    "await bake ban bear beat become beg begin behave believe belong bestow bind bite bless blow boil borrow bother breathe bring broaden build bury "
    "buy calculate cancel capture carry cater cease celebrate chew choose chop cite clarify clean click climb collaborate collapse collect combine "
    "come commemorate commence commit communicate compare compel compete compile complain comply compose comprehend comprise compute conceal concede "
    "conceive conclude condemn conduct confer confess configure confirm confront confuse connect conquer consider consist constitute construct "
    "consult consume contain contend continue contribute convert convey convince cook cooperate cope correspond crawl criticize cuddle culminate "
    "cultivate debug decay decide declare decline decode decorate dedicate deem defeat defect defend defer define degrade delete deliver demolish "
    "demonstrate deny depart depend depict deploy depose deprive derive descend describe deserve destroy detect deteriorate determine develop devise "
    "devote dictate die differ diffuse dig dilute diminish disagree disappear disband discard disclose discourage discover discuss dislike dismiss "
    "dispatch displace dispose disrupt dissolve distinguish distribute disturb divide divorce dominate donate download draw drown dub dwell earn eat "
    "edit educate elaborate elect elevate elicit eliminate embark embody embrace emerge emphasize employ enable enact encode encompass encounter "
    "encourage endorse endow endure enforce engage enhance enjoy enlarge enlist enrich enroll ensure entail enter entertain entitle envision equip "
    "eradicate erase erect erupt establish evacuate evaluate evoke evolve examine exceed excel exclude execute exist expand expect expel expire "
    "explain explode exploit explore expose extend fabricate facilitate fail fascinate feed feel fill find fix flank flee flourish fly follow forbid "
    "forget forgive formulate foster fry fulfill garner gather generate get give go google govern grab graduate groom grow guarantee hang happen "
    "harass hate haul hear hesitate hide hinder hire hold hurt identify ignore illuminate illustrate imagine immigrate impair impede implement imply "
    "impose impress improve inaugurate include incorporate incur indicate induce infect infer inflict inform inhabit inherit inhibit initiate injure "
    "insert insist inspect inspire install instruct integrate intend intensify interact interpret intervene introduce invade invent invest "
    "investigate invite invoke involve irritate isolate join justify keep kidnap kill kneel knit knock know laugh lay lean learn leave lend lessen "
    "let liberate lick lie listen live locate look lose lower maintain make manage manufacture marry maximize mean mediate meet melt mention merge "
    "migrate mimic minimize modify motivate mourn mow narrate need neglect negotiate nominate notify obey oblige obscure observe obtain occupy occur "
    "offend offset operate oppose organise organize originate oust overcome overlook oversee overtake overthrow owe own paint participate pay peel "
    "penetrate perceive perform permit persecute persist persuade pertain plead please pledge portray possess postpone pour pray precede precipitate "
    "predict prefer prepare prescribe preserve preside pretend prevail prevent proceed proclaim profess prohibit prolong promote prompt pronounce "
    "propagate propose prosecute prosper protect prove provide provoke publish pull punish pursue put qualify quit raise ratify react read readmit "
    "realise realize rearrange reboot rebuild recall receive reclaim recognise recognize recommend reconcile reconstruct recount recover recruit "
    "recycle redesign redirect rediscover reduce reelect refer reflect refuse regain regulate reinforce reissue reiterate reject rejoin relate "
    "relinquish relocate rely remain remake remember remind remove rename render renew renovate reopen reorganize repay repel replace replicate "
    "represent reproduce require resemble reside resign resist resolve respond restore restrict restructure resume resurrect retain retell retire "
    "retrieve reunite reveal reverse revise revive rewrite rob rub satisfy save say scare scatter scream seduce see seek seem seize select sell send "
    "separate serve settle sew shatter shed shine shoot shout shrink shut simplify sing sink sit slay sniff solve spawn speak specialise specialize "
    "specify spend spin split spoil stare starve steal stimulate strengthen strive subdue submit subscribe succeed suck sue suffer suggest suit "
    "summon supersede supervise supplement suppose suppress surmise surpass surrender surround survive suspect suspend sustain swear sweep swim "
    "symbolize tackle take teach tell tend terminate testify thank think threaten throw tolerate transcend transcribe transform translate transmit "
    "try undergo understand undertake unify unite unveil uphold upload urge utilize vacate validate vanish vary verify violate wait wander want warn "
    "weaken wear weep whisper widen wield win wipe withdraw withstand worship write"
)
_NOUN_VERBS = (  # noun as often as verb, told apart by what stands beside them
    "access account act address advance age aid aim air alarm amount anchor anger answer appeal approach arm array attack attempt auction award back "
    "balance ball band bank bar base bat battle beam bed bet bill bit blame blast blend block blog blood board boat bomb bond book boom boost border "
    "boss bottle bottom box brand break breath breed bridge brief broadcast brush budget burn bus bust button cable call camp campaign cap captain "
    "care cast catch cause center centre chain chair challenge champion chance change channel charge charm chart chase chat check cheer circle claim "
    "class clock close cloud club coach coast coat code coin color colour comfort command comment compliment compound compromise concern concert "
    "condition conflict contact contest contract contrast control copy core corner cost count counter couple course court cover crack craft crash "
    "credit crew cross crowd crown cry cure curve cut cycle damage dance date dawn deal debate debut decrease default delay delight demand deposit "
    "desert design desire detail diet direct discharge discount dish display dispute distance dock document dog double doubt down draft drain dream "
    "dress drift drill drink drive drop drug drum duel dump dust echo edge effect effort egg email end engineer envy escape estimate exchange excuse "
    "exercise exhibit exit experience experiment export express eye face factor fall fan fashion fault favor favour fear feature fee fight figure "
    "file film filter final finance fine finger finish fire fish fit flag flash flavor float flood floor flow flower focus fold force forecast forge "
    "fork form forward foul frame front fuel function fund gain gap garden gate gift glass glue goal grade grant graph ground group guard guess "
    "guest guide gun halt hammer hand handle harm harvest hat head heap heart heat help hike hint hit home honor honour hook hope host house hunt "
    "ice impact import impulse increase index influence insult interest interview intrigue iron issue jail jam job joke journey judge jump key kick "
    "kiss label labor labour lack land launch lead leak lease lecture level license lift light limit line link list load loan lock log loop love "
    "mail man map march mark market mask mass master match mate matter measure mind mine mirror miss mistake mix model monitor motion mount mouth "
    "move murder name nest net network nose note notice number object offer open order outline page pain pair panel park part partner party pass "
    "patch pattern pause peak people phone photo phrase pick picture piece pile pilot pin pioneer pitch place plan plant play plot point poison poll "
    "pool port pose position post pot pound power practice praise premiere present press pressure price print prize process produce profile profit "
    "program progress project promise protest pump punch purchase push question quiz quote race rain range rank rate reach reason rebel record "
    "reform refund regard regret relay release remark rent repair repeat reply report request rescue research reserve rest result retreat return "
    "review revolt reward rhyme ride right ring riot rise risk rival rock role roll room root round route row ruin rule run rush sail sample sand "
    "scale scan schedule school scope score scout screen script seal search season seat section sense sentence set shame shape share shelter shift "
    "ship shock shop shot show shower sign signal silence sin site sketch skill skin slave sleep slice slide slip slope slot smell smile smoke snap "
    "snow sort sound source space spark speed spell spirit sponsor sport spot spread spring square stab staff stage stain stamp stand star start "
    "state station status stay steam stem step stick stitch stock stone stop store storm strain stream street stress stretch strike string strip "
    "stroke structure struggle study style subject sum supply support surface surge surprise survey swap swing switch table tag tail talk tap target "
    "task taste tax team tear term test text thought threat tie time tip title toast tone top total touch tour tow trace track trade traffic trail "
    "train transfer transition transport trap travel treat trek trial trick trigger trip trouble truck trust tube tune turn twist type update "
    "upgrade upset use value view visit voice volunteer vote voyage wage walk wall war wash waste watch water wave way weather weight welcome well "
    "whistle will wind wing wire wish witness wonder word work worry wound wrap yard yield zone"
)
_ADJECTIVES = (
    "able abrupt absent absolute abstract absurd abundant accurate actual additional adept adequate adverse afraid aged agile agricultural alive "
    "alleged alone alternative amazing ambient ancient angry annoying annual anterior apparent appropriate approximate apt armed arrogant ashamed "
    "authentic available aware awesome awful awkward backward bad bald bankrupt bare beautiful beloved best better big bigger bitter black bland "
    "blank blatant blind blue blunt bodily bold bored boring brave brief bright brilliant broad brotherly brown busy calm caring central challenging "
    "charming cheap chief chilly chubby citywide civil classical clean clear clever closed cloudy coarse coastal cold collegiate commercial common "
    "compact complete complicated concerned concise concrete confident confused confusing consistent constant contemporary content convenient cool "
    "corporate correct corrupt costly countless cowardly cozy crappy crazy creamy creepy crisp crispy critical crooked crucial crude cruel crunchy "
    "cultural curly current curved cute daily damp dangerous dark dead deadly deaf dear decent deep defiant definite delicate delicious dense "
    "dependent desperate detailed devoted different difficult direct dirty disappointed disappointing discrete distant distinct diverse "
    "divine dizzy domestic dominant double downhill dry dual dumb dusty eager early earthly eastern easy easy-going economic efficient elaborate "
    "elder elderly eldest elegant embarrassing eminent empty encouraging enormous entertaining entire equal equivalent essential eventual evident "
    "exact excellent excited exciting existing expensive experienced exterior external extinct extra extravagant extreme exuberant faint fair fake "
    "false familiar famous fancy fantastic fascinating fast fat favorite favourite federal feminine fertile fierce final financial fine flat fluent "
    "foggy fond foreign fortunate fragile free frequent fresh friendly front-line frustrated full full-time funny futile gay generous gentle genuine "
    "gifted glad global good gorgeous grand grateful gray greasy great greater green grey guilty handsome handy happy hard harsh haunted healthy "
    "heavenly heavy hesitant high hilly holy honest horrible hostile hot hourly huge human humane humid hungry ignorant ill immature immediate "
    "immense imminent important impressed impressive inconvenient independent indirect industrial inferior infinite initial inland inner innocent "
    "insane instant insufficient intact intelligent intense interested interesting intermediate internal international intimate invalid inverse "
    "inward irrelevant jealous joint jolly juicy junior juvenile keen kind large late latter lazy leading lean legal legitimate lesser like-minded "
    "likely limited little live-action lively local lonely long loose loud lovely loving low low-cost lower loyal lucky mad magnificent main "
    "mainstream major marine masculine massive mature mean medical medieval mental mere messy mid middle-aged mild minor missing mixed mobile "
    "moderate modern monthly muddy multiple mute naive naked narrow national nationwide natural nearby neat necessary new nice noble noisy normal "
    "northeastern northern northwestern notable nuclear numb numerous obscure obsolete obvious odd oily ok okay old ongoing online open opposite "
    "orderly ordinary outdated outer outgoing outstanding outward overall overpriced overrated overwhelming pale part-time passionate past perfect "
    "permanent persistent personal physical pink plain pleasant pleased pleasing polite political poor popular possible posterior potent precise "
    "pregnant present pretty prevalent previous pricey primary prime prior private pro-life prominent promising proper proud pure purple quaint "
    "quarterly quick quiet rainy rapid rare raw ready real rear recent red redundant refreshing regional related relaxed relaxing relevant religious "
    "reluctant remaining remote resistant resolute rich right rigid rocky rough round routine royal rude rugged rural rusty sacred sad safe salty "
    "sandy sane satisfied scarce scared scary scholarly secondary secure selfish senior separate serious severe shady shallow sharp shiny shitty "
    "shocking short shy sick significant silent silly similar simple single skinny sleepy slender slim slow small smaller smart smelly smooth snowy "
    "so-called sober social soft sole solid sophisticated sorry sour southeastern southern southwestern special spicy splendid square stable "
    "statewide steady steep sticky stiff straight straightforward strange strict strong stunning stupid subsequent sudden sufficient sunny superb "
    "superior supposed supreme sure surprised surprising sweet swift talented tall tasty tender tense terrible thankful thick thin thirsty tidy "
    "tight timely timid tiny tired tolerant tough traditional transparent tricky triple true typical ugly ulterior ultimate unable underrated "
    "uneducated unemployed unexpected unfinished unfit unfortunate unhappy uninhabited unique united unknown unlikely unlimited unlucky unpleasant "
    "unprecedented unrelated unusual unwanted upcoming uphill upper upset urban urgent usual utter vacant vague vain valiant valid vast versatile "
    "vibrant vigilant violent visible vital vivid warm weak weekly weird western wet white whole wicked wide wild willing windy wise wonderful "
    "worldly worldwide worried worse worst worth wrong yearly yellow young yummy"
)
_ADJECTIVE_NOUNS = (  # an adjective before a noun, else a noun
    "academic accountant acid adolescent adult alternative animal annual applicant approval arctic arrival assistant atlantic baltic blank blond "
    "blonde bottom capital captive center chemical christian civilian classic colonial comic conservative consultant criminal critic defendant "
    "democrat dependent deputy descendant detective domestic east electric elite epic equivalent evil executive fanatic fellow female festival fluid "
    "front future general generic giant gold guardian half head heretic heroic home human hybrid ideal immigrant imperial independent individual "
    "infant inhabitant initiative intellectual junior key kind liberal librarian light liquid local lyric male manual material maximum mechanic "
    "medic medieval merchant middle migrant military minimum minor moral musical mutant narrative native negative noble north novel "
    "objective occupant official opponent oral orange organic original pacific pagan participant past patient periodic perspective plastic plural "
    "positive potential present principal private professional proposal protestant public quarter radical regular rehearsal relative representative "
    "republican resident ritual rival routine sacred savage secret senior servant side silver solid south spiritual squad square standard subject "
    "suburban survival tenant terminal top total trial urban variant vegetarian veteran visual west"
)
_ADJECTIVE_VERBS = (  # an adjective unless it stands where a verb must
    "alert alternate better blind calm clean clear close complete cool correct direct double dry duplicate elaborate empty free lean lower mature "
    "mean moderate narrow open own perfect secret secure separate slow smooth total warm welcome"
)
_ADJECTIVE_ADVERBS = (  # an adjective before a noun or after a copula, else an adverb
    "alike best better closer daily deep direct earlier early easy enough far farther fast faster first full-time further hard harder high higher "
    "hourly inside last late later likely long longer loud low lower monthly near next nightly opposite outside part-time pretty quick right second "
    "short slow solo sooner straight third tight weekly wide worse worst yearly"
)
_ADVERBS = (
    "aboard abroad across actually afar almost alone along alot already also altogether always anyway apart apparently approximately "
    "ashore aside away back barely basically certainly clearly clockwise currently definately definitely directly e.g. eventually exactly extremely "
    "fairly finally formerly frankly frequently fully generally gradually greatly halfway hardly highly hopefully i.e. immediately increasingly "
    "initially largely lately likewise literally mainly merely midway mostly namely naturally nearly necessarily newly nonstop normally o'clock "
    "obviously occasionally offshore only originally partially particularly partly possibly presumably previously primarily probably quickly quite "
    "readily really recently relatively roughly sideways simply simultaneously slightly slowly solely sometime sometimes specifically strongly "
    "subsequently suddenly supposedly surely thoroughly totally truly typically ultimately unfortunately usually virtually widely"
)
_NOUNS = (  # nouns that an ending would mistake, and common ones that may open a sentence
    "a.m. absence accent accident activist actress adjective adventure advertising advice advocate agency agent agreement agriculture airline "
    "airport album alliance ally analysis angel angle anniversary anomaly antibiotic anyone apartment apple apprentice architecture archive area "
    "argument arithmetic army arrest article artist ascent assembly athletics atlas attic attribute audience aunt baby background bakery banking "
    "barrel baseball basis basketball battery beach bearing beast beer beginning being belly bias bible bing bird birth bishop bleed blessing body "
    "bone bonus boundary boxing boy brain bread breakfast bride brother building bully burial business butterfly camel campus canal cancer candidate "
    "canvas car cardinal carnival case castle cat category cathedral cattle cave ceiling cement cemetery census cent century championship chaos "
    "chapel chapter character characteristic cheese chess chest chicken child childhood children chocolate choice christmas church citizenship city "
    "client climate clinic clothing coal coffee collective college colonel commentary community company component computer conference constable "
    "content continent cooperative cosmetic costume country county cousin covenant cow creature creed cricket crime crisis crocodile crossing "
    "crystal culture cup currency customer darkness darling data database daughter day deadline death deed delegate delivery democracy denial "
    "dentist department descent development device diary dictionary difference dining dinner directory discipline discovery disease district dive "
    "doctor doctrine documentary dollar dome door dormitory dose drawing driver duty ear economics editorial election element elephant emergency "
    "empire employment ending enemy engine engineering england enterprise entrance envelope environment epidemic equipment estate etc etc. ethic "
    "euro evening event evidence example exile existence expertise extent fabric fact factory faith fame family farmer farming father feast february "
    "feed feeling feet fishing fitness flute folly food foot football forest franchise friend friendship funding funeral furniture gal gallery game "
    "gas gasoline girl glossary god goddess golf gospel government governor gradient graduate granite grape grass grave greed guy hair handwriting "
    "headline headquarters health hearing hill history hive hockey homicide homily horse hose hospital hotel hour housing hundred husband idea "
    "illness image importance incentive inch incident income industry information ingredient instance institute instrument insurance intent internet "
    "interval inventory investment ireland island january jelly jewel journal juice justice kernel kid kilometer kilometre king kingdom laboratory "
    "lady lake landing landscape language law lawyer leader leadership league left leg lens lesson letter library lieutenant life lightning lily "
    "listing literature locomotive logic lord loss lot lunch machine machinery magazine magic magistrate mammal management manager marketing "
    "mathematics mayor meal means meat medal medicine meeting melancholy member membership memorial memory men mess message metal meter metre mile "
    "military mineral mining minister minute missile missionary moment money monopoly monster month monument morning mosaic mother motive mountain "
    "movement movie muscle music mystery nation nature neighbor neighborhood news newspaper nickel noise nurse nursing nutrient observatory ocean "
    "offering office officer olive opening orient outcome owner ownership p.m. painting pal pandemic panic pant paper parable parachute parcel "
    "parent parking parliament payment peace pedal percent performance perfume person pesticide petal phase physics picnic pig pipe pirate pixel "
    "pizza plane plate player pleasure pm police policy politics pope portal prayer pregnancy premise presence president pricing pride priest prince "
    "princess prison prisoner problem procedure product programming province publishing pudding purpose queen quest rally reading recipe recipient "
    "recording recovery red reed referral refusal regime region relationship relic religion removal renewal reptile republic restaurant resume "
    "rhetoric rice river road rope rose rugby salad salary salt satellite sauce scandal scheme scholarship science scientist sea second secretary "
    "seed segment senate senator sequence sergeant series serpent server service setting settlement shed sheep shepherd shipping shopping sibling "
    "signature singer sister size sled soccer society software soldier son song soup specialist species spelling statement statistic statute steed "
    "sterling story stripe student substance substitute success sugar suicide summary summer sunrise surgery system talent tape tea teacher "
    "technology teeth telescope television temperature template temple tennis tent territory terrorist thanks theater theme theory thesis thing "
    "thread tide tile today tomorrow tonight tooth topic torrent tourist tournament towel town training treasure treatment tree tribute tunic tunnel "
    "tutorial uncle university user vaccine valley vandal variable vase vegetable vehicle vessel victory video viking village vine violence virus "
    "vocabulary volume vowel warning warrant weapon website wedding weed week weekend while wife wilderness window wine winter withdrawal woman "
    "women wood worker workshop world wrestling writer writing year yesterday youth"
)
_IRREGULAR = (  # bare form, past, participle
    "arise/arose/arisen awake/awoke/awoken bear/bore/born bear/bore/borne beat/beat/beaten become/became/become begin/began/begun bend/bent/bent "
    "bet/bet/bet bid/bid/bid bind/bound/bound bite/bit/bitten bleed/bled/bled blow/blew/blown break/broke/broken breed/bred/bred "
    "bring/brought/brought broadcast/broadcast/broadcast build/built/built burn/burnt/burnt buy/bought/bought cast/cast/cast catch/caught/caught "
    "choose/chose/chosen cling/clung/clung come/came/come cost/cost/cost creep/crept/crept cut/cut/cut deal/dealt/dealt dig/dug/dug draw/drew/drawn "
    "dream/dreamt/dreamt drink/drank/drunk drive/drove/driven dwell/dwelt/dwelt eat/ate/eaten fall/fell/fallen feed/fed/fed feel/felt/felt "
    "fight/fought/fought find/found/found flee/fled/fled fly/flew/flown forbid/forbade/forbidden foresee/foresaw/foreseen forget/forgot/forgotten "
    "forgive/forgave/forgiven freeze/froze/frozen get/got/gotten give/gave/given go/went/gone grind/ground/ground grow/grew/grown hang/hung/hung "
    "hear/heard/heard hide/hid/hidden hit/hit/hit hold/held/held hurt/hurt/hurt keep/kept/kept kneel/knelt/knelt know/knew/known lay/laid/laid "
    "lead/led/led lean/leant/leant learn/learnt/learnt leave/left/left lend/lent/lent let/let/let lie/lay/lain light/lit/lit lose/lost/lost "
    "make/made/made mean/meant/meant meet/met/met overcome/overcame/overcome oversee/oversaw/overseen overtake/overtook/overtaken "
    "overthrow/overthrew/overthrown pay/paid/paid prove/proved/proven put/put/put quit/quit/quit read/read/read rebuild/rebuilt/rebuilt "
    "remake/remade/remade rewrite/rewrote/rewritten ride/rode/ridden ring/rang/rung rise/rose/risen run/ran/run say/said/said see/saw/seen "
    "seek/sought/sought sell/sold/sold send/sent/sent set/set/set sew/sewed/sewn shake/shook/shaken shed/shed/shed shine/shone/shone shoot/shot/shot "
    "show/showed/shown shrink/shrank/shrunk shut/shut/shut sing/sang/sung sink/sank/sunk sit/sat/sat slay/slew/slain sleep/slept/slept "
    "slide/slid/slid speak/spoke/spoken spend/spent/spent spin/spun/spun split/split/split spread/spread/spread spring/sprang/sprung "
    "stand/stood/stood steal/stole/stolen stick/stuck/stuck sting/stung/stung strike/struck/struck strive/strove/striven swear/swore/sworn "
    "sweep/swept/swept swim/swam/swum swing/swung/swung take/took/taken teach/taught/taught tear/tore/torn tell/told/told think/thought/thought "
    "throw/threw/thrown undergo/underwent/undergone understand/understood/understood undertake/undertook/undertaken uphold/upheld/upheld "
    "wake/woke/woken wear/wore/worn weave/wove/woven weep/wept/wept win/won/won wind/wound/wound withdraw/withdrew/withdrawn "
    "withstand/withstood/withstood write/wrote/written"
)
_BE = listed("is are was were be been being 's")
_POSSESSIVES = listed("my your his her its our their whose thy")
_SUBJECTS = listed("i you he she it we they who u there")  # pronouns that a finite verb follows
_SINGULAR = listed("he she it who which that this")
_BARE_SUBJECTS = listed("i you we they who u")
_RELATIVES = listed(
    "fact idea belief claim notion hope fear view news evidence doubt suggestion conclusion sign proof so"
)
_TOWARDS = listed(
    "go goes going went gone come came return returned back access due according close next thanks prior similar addition response"
)
_INVARIANT = listed("become come run cut hit hurt put set read cost let shut spread split cast broadcast bet quit")
_GRADED = listed("ADJ ADV adjective_adverb adjective_verb")
_REACH = 5  # adverbs that are looked past
_CLAUSE_ENDS = listed('. , ; : ! ? ( ) " “ ” -- –')
_NO_BARE = _BE | listed(
    "am 'm 're isn't wasn't aren't weren't have has had having haven't hasn't hadn't 've"
)  # no bare verb follows
_CONTRACTED = listed("i'll you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd")
_CONTRACTED_SUBJECTS = frozenset(word for word in _CLOSED["PRON"].split() if "'" in word)
_BEFORE_NOUNS = frozenset(("DET", "ADJ", "NUM", "ADP", "SYM"))
_NOMINAL_KINDS = listed(
    "NOUN PROPN ADJ NUM unknown noun_verb noun_verbs adjective_noun adjective_verb adjective_adverb people ing_noun one ing past more"
)
_FINITE_KINDS = listed("AUX be have do verbs past")
_OBJECTS = listed("me us him them it you your my his her their its our up out for")
_AFTER_VERBS = listed("DET PRON PROPN ADP ADV NUM SCONJ this that to people what as no both for before about")
_OPENERS = listed('. ! ? : ; " “ ” ( [ * -- ...')


def _forms(base: str) -> tuple[str, list[str], list[str]]:
    """Third person, pasts and -ing forms of a regular verb; a final consonant both single and doubled."""
    last, vowel = base[-1], base[-2] in "aeiou"
    double = base + last if vowel and last not in "aeiouwxy" and base[-3:-2] not in tuple("aeiou") else base
    if last == "e":
        ing = base[:-2] + "ying" if base.endswith("ie") else base[:-1] + "ing"
        return base + "s", [base + "d"], [ing, base + "ing"]
    if last == "y" and not vowel:
        return base[:-1] + "ies", [base[:-1] + "ied"], [base + "ing"]
    hissing = base.endswith(("s", "x", "z", "ch", "sh", "o"))
    return base + ("es" if hissing else "s"), [base + "ed", double + "ed"], [base + "ing", double + "ing"]


def _compared(adjective: str) -> list[str]:
    """The comparatives and superlatives of a short adjective."""
    if len(adjective) > 7 or adjective.endswith(("ous", "ful", "al", "ed", "ing", "ic", "ble", "ent", "ant", "ive")):
        return []
    stem = adjective[:-1] if adjective[-1] in "ey" else adjective
    stem += "i" if adjective[-1] == "y" else ""
    stems = [stem, stem + stem[-1]] if adjective[-1] not in "ey" else [stem]
    return [one + ending for one in stems for ending in ("er", "est")]


def _pairs() -> Iterator[tuple[str, str]]:
    """Word and kind, what holds most last."""
    yield from ((word, "people") for word in _PEOPLES.split())
    yield from ((word, "NOUN") for word in _NOUNS.split())
    for word in _ADJECTIVES.split():
        yield from ((form, "ADJ") for form in _compared(word))
    for bases, base_kind, s_kind in ((_VERBS, "verb", "verbs"), (_NOUN_VERBS, "noun_verb", "noun_verbs")):
        for base in bases.split():
            third, pasts, ings = _forms(base)
            yield from ((ing, "ing_noun" if ing in _NOUN_SET else "ing") for ing in ings)
            yield from ((past, "past") for past in pasts)
            yield from ((base, base_kind), (third, s_kind))
    for base, past, participle in (row.split("/") for row in _IRREGULAR.split()):
        yield from ((form, "past") for form in (past, participle) if form != base and form not in _NOUN_VERB_SET)
    for words, kind in (
        (_ADJECTIVES, "ADJ"),
        (_ADJECTIVE_NOUNS, "adjective_noun"),
        (_ADJECTIVE_VERBS, "adjective_verb"),
        (_ADJECTIVE_ADVERBS, "adjective_adverb"),
        (_ADVERBS, "ADV"),
        (_NAMES, "PROPN"),
    ):
        yield from ((word, kind) for word in words.split())
    for tag, words in _CLOSED.items():
        yield from ((word, tag) for word in words.split())
    yield from ((word, "be") for word in _BE)
    yield from ((word, word) for word in _WORD_RULES)
    yield from _ALIKE.items()


@dataclass
class _Sentence:
    """A sentence being tagged: its words in small letters, their kinds, and the tags found so far."""

    lowers: list[str]
    kinds: list[str]
    tags: list[str]
    finite: bool = False  # whether this clause has its verb

    def word(self, place: int) -> str:
        return self.lowers[place] if 0 <= place < len(self.lowers) else ""

    def kind(self, place: int) -> str:
        return self.kinds[place] if 0 <= place < len(self.kinds) else "PUNCT"

    def tag(self, place: int) -> str:
        return self.tags[place] if place >= 0 else "PUNCT"

    def back(self, place: int) -> int:
        """The nearest place before that is no adverb and no negation."""
        place, farthest = place - 1, max(place - _REACH, 0)
        while place >= farthest and (self.tags[place] == "ADV" or self.lowers[place] in ("not", "n't")):
            place -= 1
        return place

    def ahead(self, place: int) -> int:
        """The nearest place after that is no adverb and no negation."""
        place, farthest = place + 1, min(place + _REACH, len(self.kinds))
        while place < farthest and (self.kinds[place] == "ADV" or self.lowers[place] in ("not", "n't", "only")):
            place += 1
        return place

    def wants_verb(self, place: int) -> bool:
        """Whether a bare verb is due here: after `to`, a modal, `do`, or a pronoun that is a subject."""
        before = self.back(place)
        if before < 0:
            return False
        word, tag = self.lowers[before], self.tags[before]
        if tag == "PART" and word == "to":
            return True
        if tag == "AUX":
            return word not in _NO_BARE
        if tag == "PRON" and word in ("that", "which"):
            return self.tag(before - 1) == "NOUN"
        return word in _BARE_SUBJECTS or word in _CONTRACTED or word in ("let's", "lets")

    def wants_noun(self, place: int) -> bool:
        """Whether a noun is due here: after an article, a possessive, an adjective, a number or a preposition."""
        tag, word = self.tag(place - 1), self.word(place - 1)
        if tag == "PRON":
            return word in _POSSESSIVES
        return tag in _BEFORE_NOUNS or (tag == "PART" and word not in ("to", "not", "n't")) or word in ("-", "/")

    def noun_follows(self, place: int) -> bool:
        """Whether the next word is likely a noun or part of a noun phrase."""
        return self.kind(place + 1) in _NOMINAL_KINDS

    def clause_follows(self, place: int) -> bool:
        """Whether a subject and its verb come next, before the clause ends."""
        if self.word(place + 1) in _SUBJECTS or self.word(place + 1) in _CONTRACTED_SUBJECTS:
            return True
        for there in range(place + 2, min(place + 8, len(self.kinds))):
            if self.lowers[there] in _CLAUSE_ENDS or self.kinds[there] in ("that", "PART", "SCONJ"):
                return False
            if self.kinds[there] in _FINITE_KINDS:
                return True
        return False


def _noun_verb(s: _Sentence, place: int) -> str:
    """A noun or a bare verb ("work")."""
    if s.wants_verb(place):
        return "VERB"
    before, after = s.tag(place - 1), s.kind(place + 1)
    if s.wants_noun(place) or s.word(place + 1) == "of":
        return "NOUN"
    if before in ("PUNCT", "CCONJ", "INTJ") and (after in ("DET", "this") or s.word(place + 1) in _OBJECTS):
        return "VERB"
    if before in ("NOUN", "PROPN") and not s.finite and s.word(place - 1).endswith("s") and after in _AFTER_VERBS:
        return "VERB"
    return "NOUN"


def _noun_verbs(s: _Sentence, place: int) -> str:
    """A plural or a verb of the third person ("borders")."""
    if s.word(s.back(place)) in _SINGULAR and s.tag(s.back(place)) == "PRON":
        return "VERB"
    if s.wants_noun(place) or s.word(place + 1) in ("of", "are", "were", "have"):
        return "NOUN"
    before = s.tag(s.back(place))
    if before in ("NOUN", "PROPN") and not s.finite and s.kind(place + 1) in _AFTER_VERBS:
        return "VERB"
    return "VERB" if before == "CCONJ" and s.kind(place + 1) in ("DET", "PRON") else "NOUN"


def _verb(s: _Sentence, place: int) -> str:
    """A bare verb, rarely a noun ("find")."""
    if s.wants_verb(place):
        return "VERB"
    return "NOUN" if s.wants_noun(place) and s.word(place - 1) not in ("-", "/") else "VERB"


def _verbs(s: _Sentence, place: int) -> str:
    """A verb of the third person, rarely a plural ("finds")."""
    return "NOUN" if s.wants_noun(place) else "VERB"


def _left(s: _Sentence, place: int) -> str:
    """A past, or an adjective after an article."""
    return "ADJ" if s.tag(place - 1) == "DET" or s.word(place - 1) in _POSSESSIVES else "VERB"


def _pretty(s: _Sentence, place: int) -> str:
    """An adverb before an adjective or adverb ("pretty good"), else an adjective."""
    return "ADV" if s.kind(place + 1) in ("ADJ", "ADV", "more", "adjective_adverb") else "ADJ"


def _ing(s: _Sentence, place: int) -> str:
    """A participle, or a noun after an article and before "of"."""
    if s.word(place + 1) == "of" and s.tag(place - 1) in ("DET", "ADJ"):
        return "NOUN"
    noun = s.tag(place - 1) in ("DET", "ADJ", "NUM") or s.word(place - 1) in _POSSESSIVES
    return "NOUN" if noun and not s.noun_follows(place) else "VERB"


def _ing_noun(s: _Sentence, place: int) -> str:
    """A noun that is a participle after `be` ("building")."""
    before = s.word(s.back(place))
    return "VERB" if (before in _BE or before in ("am", "'m", "'re")) and s.kind(place + 1) in _AFTER_VERBS else "NOUN"


def _unknown(s: _Sentence, place: int) -> str:
    """An unlisted word: a noun, but a verb where one must stand."""
    word = s.word(place)
    if word.endswith("s") and not word.endswith("ss"):
        before = s.back(place)
        return "VERB" if s.word(before) in ("he", "she", "it", "who", "which") and s.tag(before) == "PRON" else "NOUN"
    return "VERB" if s.wants_verb(place) else "NOUN"


def _adjective_noun(s: _Sentence, place: int) -> str:
    """An adjective before a noun or alone after a copula or an adverb, else a noun ("public")."""
    if s.noun_follows(place) and s.kind(place + 1) not in ("NUM", "past", "ing"):
        return "ADJ"
    if s.word(s.back(place)) in _BE or s.word(place - 1) in ("very", "so", "too", "more", "most", "as", "really"):
        return "ADJ"
    return "NOUN"


def _adjective_verb(s: _Sentence, place: int) -> str:
    """An adjective that is a verb where one must stand ("open")."""
    if s.wants_verb(place):
        return "VERB"
    return "VERB" if s.tag(place - 1) in ("PUNCT", "CCONJ") and s.kind(place + 1) in ("DET", "this") else "ADJ"


def _adjective_adverb(s: _Sentence, place: int) -> str:
    """An adjective before a noun or after an article or copula, else an adverb ("early")."""
    before = s.word(s.back(place))
    if s.tag(place - 1) == "DET" or s.word(place - 1) in _POSSESSIVES:
        return "ADJ"
    if (before in _BE or before in ("'m", "'re", "am")) and s.kind(place + 1) != "past":
        return "ADJ"
    return "ADJ" if s.noun_follows(place) and s.kind(place + 1) not in ("past", "ing", "PROPN") else "ADV"


def _people(s: _Sentence, place: int) -> str:
    """A people or a faith: an adjective, but part of a name before another capital and a language after "in"."""
    after = s.kind(place + 1)
    if after == "PROPN" or s.tag(place - 1) == "PROPN":
        return "PROPN"
    return "PROPN" if s.tag(place - 1) == "ADP" and not s.noun_follows(place) else "ADJ"


def _be(s: _Sentence, place: int) -> str:
    """The copula and auxiliary, a verb after "there"; "'s" marks the genitive after a noun."""
    if s.lowers[place] == "'s":
        return _apostrophe(s, place)
    return "VERB" if s.word(s.back(place)) == "there" and s.tag(s.back(place)) == "PRON" else "AUX"


def _apostrophe(s: _Sentence, place: int) -> str:
    before, after = s.word(place - 1), s.kind(place + 1)
    if before == "let":
        return "PRON"
    if before in _SINGULAR or before in ("there", "here", "what", "where", "how", "when"):
        return "VERB" if before == "there" else "AUX"
    return "AUX" if after in ("DET", "PART", "no") and s.tag(place - 1) != "PART" else "PART"


def _have(s: _Sentence, place: int) -> str:
    """An auxiliary before a participle, else a verb."""
    there = s.ahead(place)
    if s.kind(there) == "PRON" and s.word(there) in _SUBJECTS:
        there = s.ahead(there)
    perfect = s.kind(there) in ("past", "be") or s.word(there) in _INVARIANT or s.word(there) in ("had", "done")
    return "AUX" if perfect and not s.word(there).startswith(("is", "'s")) else "VERB"


def _do(s: _Sentence, place: int) -> str:
    """An auxiliary before a negation, a bare verb or a subject, else a verb."""
    if s.word(place + 1) in ("not", "n't"):
        return "AUX"
    there = s.ahead(place)
    if s.word(there) in _SUBJECTS and s.tag(place - 1) in ("PUNCT", "ADV", "PRON", "CCONJ", "NOUN"):
        return "AUX"
    bare = s.kind(there) in ("verb", "be", "have") or (
        s.kind(there) == "noun_verb" and s.kind(there + 1) in _AFTER_VERBS
    )
    return "AUX" if bare else "VERB"


def _to(s: _Sentence, place: int) -> str:
    """The mark of an infinitive, else a preposition."""
    there = s.ahead(place)
    kind, word = s.kind(there), s.word(there)
    if kind in ("verb", "be", "have", "do", "like"):
        return "PART"
    if kind in ("noun_verb", "adjective_verb"):
        noun = (
            s.word(there + 1) == "of"
            or s.kind(there + 1) in ("NOUN", "be", "noun_verbs")
            or s.word(place - 1) in _TOWARDS
        )
        return "ADP" if noun else "PART"
    if kind == "unknown" and not word.endswith("s"):
        return "PART" if s.kind(there + 1) in ("DET", "PRON", "this", "that") else "ADP"
    return "ADP"


def _that(s: _Sentence, place: int) -> str:
    """A relative or a demonstrative pronoun, a determiner, or the mark of a clause."""
    before, after = s.tag(place - 1), s.kind(place + 1)
    if after in _FINITE_KINDS or s.kind(s.ahead(place)) in _FINITE_KINDS or after == "PUNCT":
        return "PRON"
    if before in ("PUNCT", "ADP", "CCONJ", "PART") and not s.clause_follows(place):
        return "DET" if s.noun_follows(place) else "PRON"
    if after in ("PRON", "DET", "PROPN", "there"):
        return "PRON" if before == "NOUN" and s.word(place - 1) not in _RELATIVES else "SCONJ"
    if before == "NOUN" and after in ("noun_verb", "unknown") and s.kind(place + 2) in _AFTER_VERBS | {"PUNCT"}:
        return "PRON"
    if s.noun_follows(place) and not s.clause_follows(place):
        return "DET"
    return "PRON" if before == "NOUN" and after in ("verb", "noun_verb", "ADV") else "SCONJ"


def _this(s: _Sentence, place: int) -> str:
    return "DET" if s.noun_follows(place) else "PRON"


def _there(s: _Sentence, place: int) -> str:
    after = s.kind(s.ahead(place))
    exists = after in ("AUX", "be", "have") or s.word(s.ahead(place)) in ("seems", "seem", "exists")
    return "PRON" if exists else "ADV"


def _what(s: _Sentence, place: int) -> str:
    return "DET" if s.kind(place + 1) in ("NOUN", "noun_verb") and s.tag(place - 1) != "NOUN" else "PRON"


def _both(s: _Sentence, place: int) -> str:
    """The first half of a conjunction if the second follows ("both ... and"), else a determiner."""
    second = {"both": "and", "either": "or", "neither": "nor"}[s.lowers[place]]
    if second in s.lowers[place + 2 : place + 6]:
        return "CCONJ"
    return "ADV" if s.lowers[place] == "either" and not s.noun_follows(place) else "DET"


def _no(s: _Sentence, place: int) -> str:
    alone = s.tag(place - 1) == "PUNCT" and s.kind(place + 1) == "PUNCT"
    return "INTJ" if alone else "ADV" if s.word(place + 1) in ("longer", "more", "less") else "DET"


def _more(s: _Sentence, place: int) -> str:
    """An adverb before an adjective or adverb, else an adjective."""
    after = s.kind(place + 1)
    if after in _GRADED or after in ("past", "ing") or (after == "PUNCT" and s.lowers[place] == "much"):
        return "ADV"
    noun = s.noun_follows(place) or after == "ADP" or s.tag(place - 1) in ("VERB", "DET", "ADP", "NUM", "ADV")
    return "ADJ" if noun else "ADV"


def _enough(s: _Sentence, place: int) -> str:
    return "ADV" if s.tag(place - 1) in ("ADJ", "ADV", "VERB") and not s.noun_follows(place) else "ADJ"


def _one(s: _Sentence, place: int) -> str:
    """A number, or the noun that stands for another ("the red one")."""
    alone = not s.noun_follows(place) and s.word(place + 1) not in ("of", "-")
    if alone and s.tag(place - 1) in ("DET", "ADJ", "PRON"):
        return "NOUN"
    return "PRON" if alone and s.kind(place + 1) in ("AUX", "have", "verb") else "NUM"


def _as(s: _Sentence, place: int) -> str:
    """An adverb in the first half of "as ... as", the mark of a clause, else a preposition."""
    after = s.kind(place + 1)
    if "as" in s.lowers[place + 2 : place + 5] and (after in _GRADED or after == "more"):
        return "ADV"
    return "SCONJ" if s.clause_follows(place) or after in ("past", "ing") else "ADP"


def _before(s: _Sentence, place: int) -> str:
    """The mark of a clause, else a preposition, or an adverb with nothing after it ("before")."""
    after = s.kind(place + 1)
    if after == "ing" or s.clause_follows(place):
        return "SCONJ"
    return "ADV" if after == "PUNCT" and s.lowers[place] == "before" else "ADP"


def _while(s: _Sentence, place: int) -> str:
    return "NOUN" if s.tag(place - 1) in ("DET", "ADJ") else "SCONJ"


def _because(s: _Sentence, place: int) -> str:
    return "ADP" if s.word(place + 1) == "of" else "SCONJ"


def _though(s: _Sentence, place: int) -> str:
    return "ADV" if s.kind(place + 1) == "PUNCT" else "SCONJ"


def _once(s: _Sentence, place: int) -> str:
    clause = s.tag(place - 1) == "PUNCT" and s.clause_follows(place)
    return "SCONJ" if clause or s.word(place + 1) in _SUBJECTS else "ADV"


def _like(s: _Sentence, place: int) -> str:
    """A verb where one must stand, else a preposition or the mark of a clause."""
    if s.wants_verb(place):
        return "VERB"
    return "SCONJ" if s.word(place + 1) in _SUBJECTS else "ADP"


def _than(s: _Sentence, place: int) -> str:
    return "SCONJ" if s.word(place + 1) in _SUBJECTS else "ADP"


def _about(s: _Sentence, place: int) -> str:
    after = s.kind(place + 1)
    return "ADV" if after == "NUM" else "SCONJ" if after == "ing" else "ADP"


def _for(s: _Sentence, place: int) -> str:
    """A preposition, the mark of a clause before a participle."""
    return "SCONJ" if s.kind(place + 1) == "ing" else "ADP"


def _back(s: _Sentence, place: int) -> str:
    if s.wants_verb(place):
        return "VERB"
    return "NOUN" if s.tag(place - 1) in ("DET", "ADJ") or s.word(place - 1) in _POSSESSIVES else "ADV"


def _well(s: _Sentence, place: int) -> str:
    return "INTJ" if s.tag(place - 1) == "PUNCT" and s.word(place + 1) in (",", "...") else "ADV"


def _only(s: _Sentence, place: int) -> str:
    return "ADJ" if s.tag(place - 1) == "DET" or s.word(place - 1) in _POSSESSIVES else "ADV"


def _quite(s: _Sentence, place: int) -> str:
    return "DET" if s.word(place + 1) in ("a", "an", "the") else "ADV"


def _half(s: _Sentence, place: int) -> str:
    return "DET" if s.word(place + 1) in ("a", "an", "the") else "NOUN"


def _dash(s: _Sentence, place: int) -> str:
    return "SYM" if s.tag(place - 1) == "NUM" and s.kind(place + 1) == "NUM" else "PUNCT"


def _prime(s: _Sentence, place: int) -> str:
    """A lone apostrophe: the genitive of a plural, else a quotation mark."""
    owner = s.tag(place - 1) in ("NOUN", "PROPN") and s.word(place - 1).endswith("s")
    return "PART" if owner and s.noun_follows(place) else "PUNCT"


_Rule = Callable[[_Sentence, int], str]
_WORD_RULES: dict[str, _Rule] = {  # rules for single words
    "have": _have,
    "do": _do,
    "to": _to,
    "that": _that,
    "this": _this,
    "there": _there,
    "what": _what,
    "both": _both,
    "no": _no,
    "more": _more,
    "enough": _enough,
    "one": _one,
    "as": _as,
    "before": _before,
    "while": _while,
    "because": _because,
    "though": _though,
    "once": _once,
    "like": _like,
    "than": _than,
    "about": _about,
    "for": _for,
    "back": _back,
    "well": _well,
    "only": _only,
    "quite": _quite,
    "half": _half,
    "left": _left,
    "pretty": _pretty,
    "-": _dash,
    "'": _prime,
}
_ALIKE: dict[str, str] = {  # words that follow the rule of another
    word: rule
    for rule, words in {
        "have": "has had having",
        "do": "does did doing done",
        "this": "these those",
        "what": "which",
        "both": "either neither",
        "more": "most less least much",
        "before": "after since until till",
        "for": "in by of with from at on without",
        "-": "–",
    }.items()
    for word in words.split()
}
_RULES: dict[str, _Rule] = _WORD_RULES | {
    "be": _be,
    "noun_verb": _noun_verb,
    "noun_verbs": _noun_verbs,
    "verb": _verb,
    "verbs": _verbs,
    "ing": _ing,
    "ing_noun": _ing_noun,
    "unknown": _unknown,
    "adjective_noun": _adjective_noun,
    "adjective_verb": _adjective_verb,
    "adjective_adverb": _adjective_adverb,
    "people": _people,
}
_PLAIN = {"past": "VERB"}  # kinds that are always of one tag, yet tell their neighbours more than it does
_NOUN_SET, _NOUN_VERB_SET = listed(_NOUNS), listed(_NOUN_VERBS)
_KINDS: dict[str, str] = dict(_pairs())
_PEOPLE_SET = listed(_PEOPLES)
_FUNCTION_WORDS = (
    frozenset(word for words in _CLOSED.values() for word in words.split()) | _BE | _WORD_RULES.keys() | _ALIKE.keys()
)
_NAME_WORDS = listed("may will can mark jan mar mon sun sat wed march")  # with a capital inside a sentence a name
_ENDINGS: dict[str, str] = {  # the longest decides
    ending: kind
    for kind, endings in {
        "NOUN": "tion sion ment ness ship hood ism ist ity ance ence ology graphy ette dom ure age tions sions ments ities isms ists ances ences nesses",
        "ADJ": "ous ful less able ible ical ish esque lar ern ulent",
        "adjective_noun": "ial ive ic ary al",
        "ADV": "ly wards wise ically",
        "verb": "ize ise ify yze",
        "verbs": "izes ises ifies yzes",
        "past": "ed",
        "ing": "ing",
    }.items()
    for ending in endings.split()
}
_PREFIXES = listed("un re in im non dis mis pre over out anti inter under super sub")
_PREFIXED = listed("ADJ ADV past ing verb verbs")  # kinds that a prefix leaves as they are


@lru_cache(maxsize=65536)
def _guess(lower: str) -> str:
    """The kind of a word by its look: listed, a number, a mark, a prefix before a listed word, or an ending."""
    known = _KINDS.get(lower)
    if known is not None:
        return known
    if not any(map(str.isalpha, lower)):
        return _mark_or_number(lower)
    if any(map(str.isdigit, lower)):
        return "ADJ" if lower.endswith(("st", "nd", "rd", "th")) and lower[0].isdigit() else "NOUN"
    if lower.endswith("'s"):
        return "NOUN"
    for size in range(2, 6):
        if lower[:size] in _PREFIXES and _KINDS.get(lower[size:]) in _PREFIXED:
            return _KINDS[lower[size:]]
    if len(lower) > 4:
        for size in range(min(len(lower) - 2, 7), 1, -1):
            if lower[-size:] in _ENDINGS:
                return _ENDINGS[lower[-size:]]
    return "unknown"


def _mark_or_number(word: str) -> str:
    if any(map(str.isnumeric, word)):
        return "NUM"
    if word in _SYMBOLS:
        return "SYM"
    return "PUNCT" if all(unicodedata.category(character)[0] in "PZC" for character in word) else "SYM"


def _kinds_of(words: Sequence[str], lowers: list[str]) -> list[str]:
    """The kind of each word, from its look and its capital."""
    kinds = [_guess(lower) for lower in lowers]
    if _shouted(words):
        return kinds
    opening = True  # whether a capital here may be the sentence's own
    for place, word in enumerate(words):
        kind = kinds[place]
        if word == "I":
            kinds[place] = "PROPN" if _numeral(kinds, place) else kind
        elif word[:1].isupper():
            kinds[place] = _opening(words, lowers, kinds, place) if opening else _capital(word, lowers[place], kind)
        if kind not in ("PUNCT", "SYM", "NUM", "-", "'"):
            opening = False
        elif word in _OPENERS:
            opening = True
    return kinds


def _numeral(kinds: list[str], place: int) -> bool:
    """Whether "I" is the number of the name before it ("World War I") and no subject."""
    named = place > 0 and kinds[place - 1] == "PROPN"
    return named and (place + 1 == len(kinds) or kinds[place + 1] in ("PUNCT", "CCONJ", "for", "ADP"))


def _shouted(words: Sequence[str]) -> bool:
    """Whether most words are in capitals, so that capitals say nothing."""
    long = [word for word in words if len(word) > 1 and word.isalpha()]
    return len(long) > 2 and 2 * sum(map(str.isupper, long)) > len(long)


def _capital(word: str, lower: str, kind: str) -> str:
    """The kind of a capitalised word inside a sentence: a name, unless it is a function word or a people."""
    if lower in _PEOPLE_SET:
        return "people"
    if lower in _FUNCTION_WORDS and lower not in _NAME_WORDS and (len(word) == 1 or not word.isupper()):
        return kind
    return "PROPN"


def _opening(words: Sequence[str], lowers: list[str], kinds: list[str], place: int) -> str:
    """The kind of a capitalised word that opens a sentence: as in small letters if listed, else by its ending, else a name."""
    word, lower, kind = words[place], lowers[place], kinds[place]
    follower = words[place + 1] if place + 1 < len(words) else ""
    named = follower[:1].isupper() and _capital(follower, lowers[place + 1], "") == "PROPN"
    if lower in _PEOPLE_SET:
        return "people"
    if lower in _FUNCTION_WORDS or kind in ("ADV", "ing", "past"):
        return kind
    if len(word) > 1 and word.isupper():
        return "PROPN"
    if lower in _KINDS:
        return "PROPN" if named and kind in ("NOUN", "noun_verb", "ADJ", "adjective_noun") else kind
    plural = lower.endswith("s") and not lower.endswith(("ss", "us", "is", "'s")) and follower[:1].islower()
    return kind if not named and (kind != "unknown" or plural) else "PROPN"


@dataclass(frozen=True)
class Word:
    """A word of a text, by its characters, with its tag."""

    start: int
    stop: int
    string: str
    tag: str


def tag_words(words: Sequence[str]) -> list[str]:
    """The universal tag of each word of one sentence.

    >>> tag_words("She was born in Vienna and sells old books .".split())
    ['PRON', 'AUX', 'VERB', 'ADP', 'PROPN', 'CCONJ', 'VERB', 'ADJ', 'NOUN', 'PUNCT']
    """
    lowers = [word.lower().replace("’", "'") for word in words]
    s = _Sentence(lowers, _kinds_of(words, lowers), [])
    for place, kind in enumerate(s.kinds):
        rule = _RULES.get(kind)
        tag = _PLAIN.get(kind, kind) if rule is None else rule(s, place)
        s.tags.append(tag)
        if tag in ("AUX", "VERB"):
            s.finite = s.finite or kind != "ing"
        elif tag in ("PUNCT", "CCONJ", "SCONJ") or kind in ("what", "that"):
            s.finite = False
    return s.tags


def tagged(text: str) -> list[Word]:
    """The words of one sentence with their tags.

    >>> [word.tag for word in tagged("Open the old book.")]
    ['VERB', 'DET', 'ADJ', 'NOUN', 'PUNCT']
    """
    spans = word_spans(text)
    strings = [text[start:stop] for start, stop in spans]
    return [Word(*span, string, tag) for span, string, tag in zip(spans, strings, tag_words(strings), strict=True)]
