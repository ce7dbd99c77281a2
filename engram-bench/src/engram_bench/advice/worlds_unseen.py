"""Kinds of work that are held out: do not read or run them while the learner is developed."""

from __future__ import annotations

from dataclasses import replace

from engram_bench.advice.kinds import KindOfWork, errands, lines, situation

LEGAL = KindOfWork(
    "legal office",
    (
        situation(
            "filing deadline is close",
            "court portal | litigation | filing",
            """
            0.92 file an extension motion today and calendar the new date
            0.50* hurry and file what is there
            0.15 call the clerk and ask for patience
            0.10 wait for the client's answer
            """,
            """
            brief in {case} is due {date}, half written
            statute runs out in {n} days for {name}
            response to complaint {id} not ready
            "the cut-off is tomorrow at {time}, are we set?"
            term in the {case} matter ends before the expert reports
            docket alert: submission window closing, no. {id}
            we will not make it by {date} with the appeal
            time limit for objections almost over
            """,
        ),
        situation(
            "client does not send documents",
            "dms | litigation | discovery",
            """
            0.88 send a numbered checklist with a phone call
            0.48* send a reminder by mail
            0.20 wait for the client's answer
            0.30 ask the other side for copies
            """,
            """
            still no bank records from {name}
            {case}: exhibits outstanding for {n} weeks
            client keeps promising the emails, nothing in the folder
            production set {id} incomplete, our own party is slow
            need the lease and the invoices, asked three times
            mandant unresponsive re: paperwork
            custodian files for {case} never uploaded
            "I'll look for it at the weekend" again
            """,
        ),
        situation(
            "privileged document was disclosed",
            "review platform | litigation | discovery",
            """
            0.91 send a clawback letter and log it the same day
            0.46* ask the other side for a kind return
            0.12 say nothing
            0.25 redact it in the next production
            """,
            """
            memo to counsel went out in volume {n}
            attorney-client mail visible to opponents in {case}
            inadvertent production, bates {id}
            {name} noticed our strategy note in their exhibit
            we handed over something we should not have
            protected work product left the building on {date}
            opposing firm quotes advice of ours
            wrong batch released: contains legal opinions
            """,
        ),
        situation(
            "conflict of interest check hits",
            "intake tool | office | intake",
            """
            0.93 stop intake and ask for informed waivers
            0.50* put up an ethical wall
            0.20 call the clerk and ask for patience
            0.10 say nothing
            """,
            """
            new matter vs. {company}, whom we advised in the past
            name match on {name}: former adverse party
            screening {id} is red
            partner sits on the board of {company}
            can we act? we represent the seller's sister company
            intake form shows overlap with {case}
            somebody in the Berlin office works for the other side
            prospective mandate collides with existing client
            """,
        ),
        situation(
            "counterparty ignores the contract",
            "word | advisory | dispute",
            """
            0.87 send a formal notice with a cure period
            0.50* negotiate on the phone
            0.30 file suit at once
            0.15 send a reminder by mail
            """,
            """
            {company} has not paid instalment {n}
            breach of the supply agreement, goods late by {n} days
            tenant of {name} withholds {amount}
            licensee keeps using the mark after expiry
            they simply stopped delivering in {date}
            service levels missed for the third month, client furious
            obligation under clause {n} not performed
            vendor walked away from the deal
            """,
        ),
        situation(
            "witness contradicts the statement",
            "notebook | litigation | hearing",
            """
            0.86 confront gently with the earlier record and offer to clarify
            0.48* object and move on
            0.22 drop the witness
            0.12 say nothing
            """,
            """
            {name} now says it was raining
            testimony differs from the affidavit of {date}
            our own person changed the story in prep
            page {n} of the transcript does not fit
            deponent in {case} remembers it otherwise
            inconsistent account of the meeting at {time}
            she told the police something else
            prior declaration vs. today: opposite
            """,
        ),
        situation(
            "invoice is disputed by the client",
            "billing | office | billing",
            """
            0.90 go through the time entries together and write off the unclear ones
            0.52* give a discount of ten percent
            0.15 send a reminder by mail
            0.10 file suit at once
            """,
            """
            {name} refuses to pay {amount} for {case}
            "why {n} hours for one letter?"
            fee note {id} contested
            general counsel of {company} questions our narrative lines
            client says the estimate was half
            outside counsel guidelines violated, bill bounced
            complaint about two partners on one call
            e-billing rejected {n} positions
            """,
        ),
    ),
    notes=lines(
        """
        The library orders commentaries in {date}
        {name} teaches at the university on Wednesdays
        Robes are cleaned by the shop next door
        Signature folders are blue for {name}
        The summer party is on {date}
        Dictation goes to the pool until {time}
        The new archive has {n} shelves
        """
    ),
    errands=errands(
        """
        book a courier to the court for {time} -> use the bicycle service
        arrange lunch with {name} -> reserve at the Italian place
        renew the bar membership of {name} -> pay by standing order
        print the bundle for {date} -> send it to the print shop
        """
    ),
    errors=lines(
        """
        rejected by the registry
        judge was not amused
        partner asked for a new draft
        sanction threatened, order {id}
        client complained to {name}
        """
    ),
    places={
        "case": ("Hartmann v. Lowe", "the Delaney estate", "Meridian arbitration", "Ortega", "the Kolb merger"),
        "company": ("Aldgate Holdings", "Ferrum AG", "Pine & Co", "Solvay Transport", "Lumen Retail"),
    },
)

HOSPITAL = KindOfWork(
    "hospital logistics",
    (
        situation(
            "medicine is out of stock",
            "pharmacy system | ward | supply",
            """
            0.92 ask the pharmacist for an approved equivalent
            0.50* order an express delivery
            0.28 borrow from another ward
            0.10 wait for the regular delivery
            """,
            """
            no {drug} left on ward {n}
            {drug} backordered until {date}
            cabinet {n} empty, nurse {name} waits
            pick list {id}: zero on hand
            supplier can't ship {drug}
            shortage notice, {n} doses remaining
            we ran dry of {drug} at {time}
            automated dispenser says not available
            """,
        ),
        situation(
            "blood sample went missing",
            "tube system | lab | transport",
            """
            0.90 trace the carrier in the tube log and alert the lab
            0.50* draw the blood again
            0.20 call the porter
            0.10 wait for the regular delivery
            """,
            """
            specimen {id} never reached the laboratory
            lab has no tube for patient in room {n}
            sent by pneumatic post at {time}, not received
            {name} asks for results of a vial that is lost
            barcode {id} last scanned at station {n}
            pending since the morning, sample gone
            carrier {n} stuck somewhere between ER and lab
            missing EDTA from ward {n}
            """,
        ),
        situation(
            "no bed is free",
            "bed board | ward | capacity",
            """
            0.88 open the discharge lounge and move patients who go home today
            0.50* call all wards one by one
            0.15 cancel planned operations
            0.25 send the ambulance on
            """,
            """
            emergency has {n} patients waiting for admission
            ward {n} at 100%
            where to put the man from the ambulance?
            boarders in the corridor since {time}
            capacity alert level {n}
            {name} cannot transfer from ICU, nothing upstairs
            occupancy full house, more arriving
            all places taken, surgery needs three tonight
            """,
        ),
        situation(
            "equipment cannot be found",
            "asset tags | ward | equipment",
            """
            0.91 look at the last tag reading and the cleaning room
            0.46* search the neighbouring wards
            0.30 borrow from another ward
            0.15 rent one
            """,
            """
            {device} {n} has vanished
            who took the {device} from room {n}?
            inventory no. {id} not at its place
            need a {device} for {name} now, none in sight
            {device} missing before the round
            pool shows five {device}s, shelf shows none
            somebody rolled the {device} away during the night
            cannot locate unit {id}
            """,
        ),
        situation(
            "cold chain was broken",
            "fridge monitor | pharmacy | quality",
            """
            0.93 quarantine the stock and ask the maker for stability data
            0.48* put it back and watch
            0.12 throw everything away
            0.28 call the technician
            """,
            """
            vaccine fridge at {n} degrees for {n} minutes
            temperature alarm {id} at {time}
            door was open all night, {drug} inside
            logger shows excursion on {date}
            refrigerator {n} failed, contents warm
            {name} found ice packs melted in the transport box
            out of range 2-8, batch {id}
            power cut: biologicals unrefrigerated
            """,
        ),
        situation(
            "operating set is not sterile",
            "autoclave | theatre | sterilisation",
            """
            0.92 take the spare set and send this one back with a report
            0.45* flash sterilise it
            0.20 use the set of another theatre
            0.08 wipe it with alcohol
            """,
            """
            indicator strip of tray {id} not changed
            wrapper torn on the hip set
            theatre {n}: instruments wet inside
            {name} rejects the tray before incision
            cssd label expired on {date}
            seal broken, surgeon waiting
            chemical control negative, cycle {n}
            hole in the container filter
            """,
        ),
        situation(
            "patient transport is late",
            "dispatch | ward | transport",
            """
            0.87 book the shuttle team and tell radiology the new time
            0.52* call the porter
            0.25 let a nurse push the bed
            0.15 cancel the examination
            """,
            """
            patient of room {n} not at the CT, slot {time}
            nobody came to fetch Mrs {name}
            ride request {id} open for {n} min
            radiology waits, stretcher missing
            escort from ward {n} to dialysis overdue
            pick-up delayed again, scan at risk
            wheelchair ordered an hour ago
            transfer to MRI did not happen
            """,
        ),
    ),
    notes=lines(
        """
        Hand hygiene week begins on {date}
        The canteen closes at {time}
        {name} leads the steering group for the new wing
        Parking level {n} is for visitors
        Flu shots for staff are free
        The choir sings in the lobby in December
        Uniforms are exchanged on Mondays
        """
    ),
    errands=errands(
        """
        order name badges for {n} people -> use the form on the intranet
        plan the fire drill on {date} -> announce it by poster
        prepare the meeting with {name} -> reserve the seminar room
        renew the magazine subscriptions -> ask purchasing
        """
    ),
    errors=lines(
        """
        incident report {id} filed
        doctor complained at {time}
        delay of {n} minutes
        patient had to wait
        still not solved at handover
        """
    ),
    places={
        "drug": ("heparin", "amoxicillin", "insulin", "propofol", "paracetamol iv", "noradrenaline"),
        "device": ("infusion pump", "bladder scanner", "ECG cart", "patient lift", "syringe driver"),
    },
)

TRAVEL = KindOfWork(
    "travel booking",
    (
        situation(
            "flight was cancelled",
            "amadeus | business travel | disruption",
            """
            0.91 rebook on a partner airline under the waiver
            0.50* wait on the airline's hotline
            0.20 ask for a refund and buy a new ticket
            0.12 put the traveller on the train
            """,
            """
            {name} stranded in {city}, departure scrapped
            airline dropped the {time} to {city}
            cancelled: booking {id}
            crew strike, nothing leaves {city} today
            schedule change kills the only direct connection
            UN/UC segment in PNR {hex}
            the evening plane does not fly, meeting tomorrow in {city}
            snow closed {city}, passenger needs an alternative
            """,
        ),
        situation(
            "connection is too short",
            "amadeus | business travel | planning",
            """
            0.89 move to an earlier first leg
            0.52* trust the minimum connecting time
            0.15 put the traveller on the train
            0.28 book a lounge
            """,
            """
            {n} minutes in {city} between two terminals
            inbound late, onward to {city} at risk
            layover illegal, MCT violated in {hex}
            will {name} make the transfer?
            tight change at {city} with immigration
            first hop delayed, second boards at {time}
            self-transfer with bags, not enough time
            risky stop in {city}
            """,
        ),
        situation(
            "hotel is overbooked",
            "booking engine | business travel | disruption",
            """
            0.90 have the hotel walk the guest at its cost to an equal one
            0.48* look for a room online
            0.20 ask for a refund and buy a new ticket
            0.30 move the dates
            """,
            """
            {name} at the desk in {city}, no room
            reservation {id} not honoured
            property in {city} sold too many
            "they sent me away at {time}"
            voucher valid, house full
            fair in {city}, our {n} guests bumped
            check-in refused although confirmed
            late arrival, bed given to somebody else
            """,
        ),
        situation(
            "visa is missing",
            "visa desk | leisure | documents",
            """
            0.88 apply by the express desk with a letter of invitation
            0.50* apply online
            0.25 move the dates
            0.10 travel without it
            """,
            """
            {name} needs an entry permit for {city}
            departure {date}, passport without stamp
            eTA not granted yet, reference {id}
            consulate gives no appointment before {date}
            nationality not exempt, stopover in {city}
            client forgot the immigration papers
            can I board without authorisation?
            travel documents incomplete for group of {n}
            """,
        ),
        situation(
            "bag did not arrive",
            "worldtracer | leisure | claim",
            """
            0.91 file the report at the airport and send the reference to the hotel
            0.48* call the airline next day
            0.15 buy everything new
            0.30 wait on the airline's hotline
            """,
            """
            suitcase of {name} stayed in {city}
            carousel empty, tag {id}
            luggage delayed on the way to {city}
            family without clothes since {date}
            lost baggage desk closed at {time}
            one of {n} pieces missing after landing
            ski bag went elsewhere
            PIR needed, where is my trolley
            """,
        ),
        situation(
            "price went up before payment",
            "booking engine | leisure | sales",
            """
            0.86 hold the fare for a day and offer a nearby date
            0.52* pay the new price
            0.20 ask the airline for the old one
            0.12 book a lounge
            """,
            """
            fare to {city} jumped by {amount}
            basket {id} more expensive than quoted
            {name}: yesterday it was cheaper
            class sold out while the client was thinking
            quote of {date} no longer valid
            "the total changed when I clicked"
            tariff expired at ticketing
            dynamic pricing hit the holiday in {city}
            """,
        ),
        situation(
            "name on the ticket is wrong",
            "amadeus | leisure | correction",
            """
            0.92 ask for a name correction with a copy of the passport
            0.45* cancel and book again
            0.25 travel without it
            0.15 call the airline next day
            """,
            """
            typo in passenger {name}, PNR {hex}
            maiden name used, passport differs
            first and last are swapped on {id}
            letter missing, will they let her board?
            booked as Bob, documents say Robert
            misspelt traveller to {city}
            e-ticket shows the wrong surname
            middle name not on the reservation
            """,
        ),
    ),
    notes=lines(
        """
        Brochures for winter arrive on {date}
        {name} was on an inspection trip to {city}
        Loyalty cards are in the profile notes
        The agency closes at {time} on Saturdays
        Staff trip is planned to {city}
        Window seats are preferred by {name}
        Commission for cruises is {percent}
        """
    ),
    errands=errands(
        """
        decorate the shop window for {date} -> use last year's posters
        write the newsletter about {city} -> three offers and one picture
        order pens with the logo -> order from the print shop online
        train {name} on the cash desk -> one afternoon together
        """
    ),
    errors=lines(
        """
        traveller called again at {time}
        refused by the carrier
        UNABLE TO PROCESS - {id}
        complaint from {name}
        extra cost of {amount}
        """
    ),
    places={"city": ("Lisbon", "Osaka", "Nairobi", "Denver", "Krakow", "Lima", "Dubai", "Oslo")},
)

CLASSROOM = KindOfWork(
    "classroom tutoring",
    (
        situation(
            "pupil mixes up fractions",
            "whiteboard | mathematics | explanation",
            """
            0.90 draw both on a number line
            0.50* repeat the rule
            0.22 give ten more exercises
            0.12 move on to the next chapter
            """,
            """
            {name} adds the denominators
            1/{n} + 1/{n} came out wrong again
            thinks one eighth is more than one quarter
            exercise {n}: numerators and bottoms muddled
            "why isn't a half plus a third two fifths?"
            does not see that parts must have the same size
            worksheet on common denominators all red
            comparing thirds and sixths confuses {name}
            """,
        ),
        situation(
            "pupil cannot set up word problems",
            "workbook | mathematics | practice",
            """
            0.88 let the pupil retell it and sketch it first
            0.48* underline the key words
            0.25 give ten more exercises
            0.15 repeat the rule
            """,
            """
            {name} can compute but not translate the story
            two trains question, blank page
            which numbers belong to which? text task {n}
            reads the problem, then guesses an operation
            stuck at turning sentences into an equation
            "I don't know what they want from me"
            age puzzle, no start after {n} minutes
            multi-step text about apples unsolved
            """,
        ),
        situation(
            "pupil is not motivated",
            "conversation | any subject | motivation",
            """
            0.86 let the pupil choose between two short tasks
            0.50* promise a reward
            0.15 call the parents
            0.20 give ten more exercises
            """,
            """
            {name} stares out of the window
            homework not done, third time
            "what do I need this for anyway"
            bored since the holidays, no effort
            gives up after {n} seconds
            head on the desk at {time}
            does only the minimum lately
            sighs whenever the book comes out
            """,
        ),
        situation(
            "essay has no structure",
            "docs | language | writing",
            """
            0.89 have the paragraphs cut apart and put in order
            0.52* write comments in the margin
            0.25 show a model text
            0.12 repeat the rule
            """,
            """
            {name}'s composition jumps from idea to idea
            no introduction, ends abruptly
            {n} pages without a paragraph
            argument about {book} goes in circles
            thesis missing in the draft of {date}
            can't follow the thread of this text
            conclusion comes before the reasons
            good sentences, chaotic order
            """,
        ),
        situation(
            "vocabulary does not stick",
            "flashcards | language | practice",
            """
            0.91 ask at growing intervals with pictures
            0.47* write every word ten times
            0.20 read the list aloud
            0.28 show a model text
            """,
            """
            {name} forgot all words of unit {n}
            quiz: {n} of 30 right
            knew it yesterday, gone today
            french terms for food do not stay
            learns lists the night before, nothing remains
            "my head is like a sieve"
            keeps asking for the meaning of the same verbs
            recall of the lexis after a week near zero
            """,
        ),
        situation(
            "exam nerves",
            "conversation | any subject | exam",
            """
            0.87 practise a mock exam with a breathing plan
            0.50* say that it will be fine
            0.15 give ten more exercises
            0.25 call the parents
            """,
            """
            {name} goes blank as soon as there is a grade
            test on {date}, stomach ache
            trembling hands before the oral
            knows everything at home, nothing in the hall
            panic {n} days ahead of finals
            "I will fail anyway"
            cried in front of the paper
            can't sleep, big assessment ahead
            """,
        ),
        situation(
            "group work falls apart",
            "classroom | any subject | group work",
            """
            0.88 give each one a role and a timer
            0.48* move one pupil to another table
            0.18 call the parents
            0.25 do it in plenary
            """,
            """
            table {n} quarrels instead of working
            {name} does all, the others chat
            project on {book}: two don't speak to each other
            noise level up, poster empty
            one team finished, one has not begun
            nobody writes the minutes
            free riders in the lab pair
            fight about who presents at {time}
            """,
        ),
    ),
    notes=lines(
        """
        The school trip to the zoo is on {date}
        {name} plays the cello
        The library returns box is by the stairs
        Parents' evening starts at {time}
        Room {n} has a new beamer
        Chalk is in the left drawer
        Sports day needs {n} helpers
        """
    ),
    errands=errands(
        """
        collect money for the trip on {date} -> use the envelope list
        copy sheets for {n} pupils -> copy the evening before
        hang up the art of class {n} -> use the corridor rail
        write the report for {name} -> take the text blocks of last year
        """
    ),
    errors=lines(
        """
        same mistake on the next page
        did not help, still lost
        pupil refused
        result of the quiz: {n} points
        parents wrote on {date}
        """
    ),
    places={"book": ("Animal Farm", "The Giver", "Romeo and Juliet", "Holes", "Emil and the Detectives")},
)

MARKETING = KindOfWork(
    "marketing campaigns",
    (
        situation(
            "few people open the newsletter",
            "mailchimp | email | campaign",
            """
            0.88 test two subject lines on a tenth of the list
            0.50* send it again to those who did not open
            0.20 add a discount to the text
            0.12 double the frequency
            """,
            """
            open rate of {campaign} only {percent}
            hardly anyone reads our mailing
            {campaign} blast: {big} sent, few looked
            inbox performance dropped since {date}
            {name} wonders whether the headline is dull
            mail no. {n} ignored by subscribers
            opens below benchmark for the third week
            preheader? nobody clicks into it at all
            """,
        ),
        situation(
            "mails land in spam",
            "mailchimp | email | delivery",
            """
            0.91 fix the sender authentication and clean the list
            0.46* change the words in the subject
            0.15 double the frequency
            0.25 send from another domain
            """,
            """
            gmail puts {campaign} into junk
            bounce and complaint rate {percent}
            DMARC fail on the {campaign} send
            {name} found our letter in the bulk folder
            deliverability warning from the provider, case {id}
            blocklisted since {date}
            soft bounces {big} after the import
            customers say they never got it, filter caught it
            """,
        ),
        situation(
            "ad clicks do not convert",
            "google ads | web | conversion",
            """
            0.87 match the landing page to the promise of the ad
            0.50* raise the bid
            0.22 add a discount to the text
            0.15 change the colour of the button
            """,
            """
            {campaign}: {big} visits, {n} orders
            lots of traffic, no sales
            bounce {percent} on the page behind the banner
            paid visitors leave in seconds
            conversion rate of {campaign} at 0.{n}%
            {name}: we burn {amount} for nothing
            clicks great, checkout empty
            cost per acquisition exploded to {amount}
            """,
        ),
        situation(
            "ad gets too expensive",
            "google ads | web | bidding",
            """
            0.89 exclude poor search terms and split the ad group
            0.48* lower the daily budget
            0.25 raise the bid
            0.12 pause everything
            """,
            """
            cpc of {campaign} up to {amount}
            budget gone by {time} every day
            auction heats up, price per click doubled
            {campaign} eats {percent} of spend
            competitors bid on our brand, clicks cost more
            {name} asks why a visit costs that much
            overspend alert {id}
            impression share lost due to rank, bills high
            """,
        ),
        situation(
            "angry comments under a post",
            "social suite | social | reputation",
            """
            0.90 answer in public once, then move to direct messages
            0.50* delete the comments
            0.15 pause everything
            0.28 post a joke
            """,
            """
            shitstorm under {campaign}
            {n} furious replies since {time}
            users call the {campaign} picture tasteless
            {name}: instagram is exploding, negative
            people tag us with complaints about the packaging
            sentiment red on thread {id}
            boycott hashtag trending
            backlash to the reel of {date}
            """,
        ),
        situation(
            "influencer does not deliver",
            "contract folder | social | partners",
            """
            0.86 send the milestone clause and agree on a new date
            0.48* write a friendly reminder
            0.20 post a joke
            0.30 book another one
            """,
            """
            creator missed the slot for {campaign}
            no story from @{name} yet, due {date}
            paid {amount}, got nothing so far
            ambassador ghosting the agency
            content for {campaign} outstanding {n} days
            collab post went up without our tag
            she wants more money before publishing
            promised three videos, one arrived
            """,
        ),
        situation(
            "numbers of two reports differ",
            "analytics | web | reporting",
            """
            0.91 compare attribution windows and write down one definition
            0.50* take the larger number
            0.22 take the average
            0.15 pause everything
            """,
            """
            ads says {n} leads, crm says {n}
            {campaign} revenue not equal in both dashboards
            {name} trusts neither table
            discrepancy of {percent} between platforms
            meta counts more purchases than the shop
            which total goes into the board deck?
            tracking gap since cookie banner, {date}
            utm figures do not add up
            """,
        ),
    ),
    notes=lines(
        """
        Brand colour is petrol, never teal
        Photo shoot on {date} in studio {n}
        {name} holds the press contacts
        Spring fair booth costs {amount}
        Agency pitch at {time}
        Fonts are licensed for {n} seats
        The mascot is called Pip
        """
    ),
    errands=errands(
        """
        order flyers for {date} -> print them on recycled paper
        brief the photographer for {campaign} -> send the mood board
        update the press list -> call the ten most important ones
        plan cake for the birthday of {name} -> order at the bakery
        """
    ),
    errors=lines(
        """
        no effect after {n} days
        rate fell further
        policy violation, ad {id} rejected
        {name} from sales complained
        lost {amount}
        """
    ),
    places={"campaign": ("Summer Glow", "Back to School", "Black Week", "Fresh Start", "Loyalty Plus")},
)

HOTEL = KindOfWork(
    "hotel operations",
    (
        situation(
            "room is not ready",
            "pms | front desk | check-in",
            """
            0.88 store the bags, offer a drink and send a message when it is ready
            0.50* ask the guest to wait in the lobby
            0.20 give a voucher
            0.30 upgrade to a better room
            """,
            """
            {n}{n} still dirty, guest at the desk
            early arrival {name}, housekeeping not through
            status vacant/dirty for the party of {n}
            family came at {time}, rooms only later
            "we were promised check-in at noon"
            cleaning behind schedule on floor {n}
            honeymoon couple waits, suite being made
            reservation {id} can't go up yet
            """,
        ),
        situation(
            "noise at night",
            "night log | floor | complaint",
            """
            0.89 visit the loud room and move the complaining guest if it goes on
            0.48* call the loud room
            0.22 give a voucher
            0.10 ask for patience
            """,
            """
            party in {n}{n} at {time}
            guest {name} can't sleep, music next door
            complaint: shouting in the corridor
            wedding group loud on floor {n}
            bass from the bar below keeps {n}{n} awake
            third call about the neighbours
            kids run around above us past midnight
            dog barks in {n}{n} for an hour
            """,
        ),
        situation(
            "no hot water",
            "maintenance app | building | repair",
            """
            0.91 switch to the second boiler and bleed the line
            0.46* reset the boiler
            0.25 call the plumber
            0.15 upgrade to a better room
            """,
            """
            showers cold on floor {n}
            {name} in {n}{n}: only lukewarm since {time}
            boiler fault E{n}
            guests complain about freezing bath
            domestic heating circuit at {n} degrees
            whole wing without warm water
            tap runs ice cold, work order {id}
            morning rush, tank empty
            """,
        ),
        situation(
            "air conditioning fails",
            "maintenance app | building | repair",
            """
            0.90 clean the filter and reset the thermostat
            0.50* bring a fan
            0.20 reset the boiler
            0.28 upgrade to a better room
            """,
            """
            {n}{n} is a sauna, {n} degrees
            AC drips on the carpet
            cooling dead on floor {n}, guest {name} upset
            fan coil unit {id} shows error
            climate control ignores the remote
            stuffy conference room at {time}
            no cold air since yesterday
            unit rattles and blows warm
            """,
        ),
        situation(
            "key card does not work",
            "lock system | front desk | access",
            """
            0.93 encode anew and check the lock battery
            0.52* encode anew
            0.15 open with the master key each time
            0.20 ask for patience
            """,
            """
            door of {n}{n} blinks red
            {name} locked out for the second time
            card next to phone, no access
            lock {n}{n} does not react
            "my key stopped working"
            lift refuses the badge to floor {n}
            guest in bathrobe in the hallway
            reader fault, room {n}{n}, at {time}
            """,
        ),
        situation(
            "guest disputes the bill",
            "pms | front desk | check-out",
            """
            0.90 go through the folio line by line and take off what has no slip
            0.50* give a discount of ten percent
            0.25 give a voucher
            0.12 insist
            """,
            """
            minibar charge of {amount} denied by {name}
            folio {id} wrong, says the guest
            "I never ordered that movie"
            breakfast billed though included
            city tax questioned at departure
            company won't pay the extra night
            account of {n}{n} shows {amount} too much
            argument at the till about parking
            """,
        ),
        situation(
            "booked more guests than rooms",
            "channel manager | reservations | capacity",
            """
            0.88 move late arrivals to the partner hotel with a taxi
            0.48* hope for no-shows
            0.15 ask for patience
            0.25 put up extra beds
            """,
            """
            minus {n} rooms for {date}
            overbooked tonight, OTA sync lag
            {n} reservations too many during the fair
            forecast 10{n}%
            double sale of the last double
            {name} warns: house oversold
            allotment error, group of {n} without rooms
            inventory negative for the weekend
            """,
        ),
    ),
    notes=lines(
        """
        The orchid in the lobby is watered on Fridays
        {name} speaks Italian
        New uniforms arrive on {date}
        The pool is cleaned at {time}
        Pastry order is {n} croissants
        The pianist plays on Thursdays
        Lost umbrellas are kept {n} weeks
        """
    ),
    errands=errands(
        """
        decorate the tree for {date} -> take the boxes from the cellar
        order candles for the restaurant -> order from the wholesaler
        reserve theatre tickets for {name} -> call the box office
        print menus for the gala -> use the thick paper
        """
    ),
    errors=lines(
        """
        guest came back at {time}
        bad review on the portal
        manager on duty called
        problem again after {n} minutes
        compensation of {amount}
        """
    ),
)

MODERATION = KindOfWork(
    "game moderation",
    (
        situation(
            "player is accused of cheating",
            "anticheat | ranked | report",
            """
            0.91 review the replay and the input statistics
            0.50* ban for a week
            0.15 ignore it
            0.25 warn by message
            """,
            """
            {player} never misses, headshots {percent}
            aimbot? report {id}
            wallhack suspicion on {map}
            {n} people flagged {player} after the match
            impossible reaction times on {map}
            "dude sees through walls"
            snap aim in clip of {player}
            speed hack seen in game {id}
            """,
        ),
        situation(
            "insults in chat",
            "chat filter | lobby | report",
            """
            0.89 mute for a day and quote the line
            0.52* warn by message
            0.20 ban for a week
            0.10 ignore it
            """,
            """
            {player} swears at team mates
            toxic messages in lobby {n}
            slur reported, line {id}
            harassment in voice on {map}
            {player} told a newbie to quit and worse
            abusive language ticket #{id}
            flaming after a lost round
            filter hit: hate speech
            """,
        ),
        situation(
            "account was hijacked",
            "admin panel | account | recovery",
            """
            0.92 end all sessions and verify by purchase history
            0.48* send a reset mail
            0.15 ban for a week
            0.20 ask for a photo of the id
            """,
            """
            {player} cannot log in, mail changed
            somebody else plays as {player}
            skins gone, login from abroad at {time}
            hacked profile, case {id}
            "that wasn't me who traded"
            suspicious device on account {id}
            stolen credentials, items sold
            my friend's user writes weird links
            """,
        ),
        situation(
            "trade scam",
            "trade log | market | fraud",
            """
            0.88 freeze both inventories and roll the trade back
            0.46* warn by message
            0.25 ban for a week
            0.12 ignore it
            """,
            """
            {player} paid {amount} and got nothing
            fake middleman in exchange {id}
            switched item at the last second
            swindled out of a rare sword by {player}
            deal on the market was a trick
            "he promised to give it back"
            {n} victims of the same seller
            fraudulent swap on {date}
            """,
        ),
        situation(
            "spam bots",
            "chat filter | lobby | automation",
            """
            0.90 rate limit new accounts and block the link
            0.50* ban them one by one
            0.22 mute for a day and quote the line
            0.10 ignore it
            """,
            """
            gold sellers flood channel {n}
            {big} identical posts since {time}
            advertising accounts in every lobby
            copy-paste links by fresh users
            bot wave, names like {player}{n}
            someone scripts invitations
            unsolicited promo in whispers
            mass registrations, all post the same url
            """,
        ),
        situation(
            "player wants an unban",
            "admin panel | account | appeal",
            """
            0.87 let a second moderator review the case
            0.48* keep the ban
            0.25 lift the ban
            0.15 ask for a photo of the id
            """,
            """
            {player} appeals, says brother did it
            ticket {id}: please give me back my access
            "I was banned for no reason"
            suspension contested after {n} days
            false positive? {player} sends video
            request to lift the penalty of {date}
            long apology letter from {player}
            pardon asked for the third time
            """,
        ),
        situation(
            "match was unfair by a bug",
            "match server | ranked | bug",
            """
            0.90 void the match and give back the points
            0.50* apologise
            0.20 give a gift box
            0.28 ban for a week
            """,
            """
            stuck in the floor of {map}, lost {n} points
            server crashed in the last round, game {id}
            team of {n} against three on {map}
            spawned without weapons
            exploit spot on {map} decided it
            {player} lagged out by server fault
            score not counted at {time}
            ranked result wrong after disconnects
            """,
        ),
    ),
    notes=lines(
        """
        Patch {version} brings winter hats
        The community cup is on {date}
        {name} streams on Tuesdays
        Artists show concept drawings at {time}
        The wiki needs an editor
        Emoji pack has {n} items
        Merchandise ships in {date}
        """
    ),
    errands=errands(
        """
        announce patch {version} -> post with a short trailer
        choose winners of the raffle of {date} -> draw with the script
        invite {name} to the podcast -> send the calendar link
        write the monthly column -> collect three fan pictures
        """
    ),
    errors=lines(
        """
        report reopened
        player complained on the forum
        happened again in match {id}
        decision overturned by {name}
        {n} more reports
        """
    ),
    places={
        "player": ("xVortex", "mossy_fox", "NullByte", "Queen_Ada", "pixelpaul", "RumbleBee"),
        "map": ("Dustvale", "Harbor", "Sky Temple", "Old Mine"),
    },
)

KINDS = tuple(replace(kind, seen=False) for kind in (LEGAL, HOSPITAL, TRAVEL, CLASSROOM, MARKETING, HOTEL, MODERATION))
