"""Hold short everyday texts about many matters: the measure of how alike texts are that have nothing in common."""

from __future__ import annotations

from engram.model import Clean

VERSION = 1
"""Changes when the texts do."""

TEXTS: tuple[Clean, ...] = tuple(
    Clean(line.strip())
    for line in """
    water the plants on the balcony
    book a table for four on Friday
    the printer is out of toner
    renew the passport before summer
    a customer asks about opening hours
    the train was late this morning
    order new chairs for the meeting room
    find a babysitter for Saturday night
    the invoice has the wrong address
    write a thank-you note to the speaker
    the heating makes a strange noise
    prepare slides for the board
    pick up the parcel at the post office
    the password has expired
    the meeting was moved to Tuesday
    a light bulb in the hallway is broken
    compare prices of health insurance
    translate the manual into Spanish
    the coffee machine needs cleaning
    the contract ends next month
    review the draft of the report
    the child has a fever
    change the tyres before winter
    the website loads slowly
    back up the photos from the phone
    a new colleague starts on Monday
    the suitcase did not arrive
    paint the kitchen wall
    the survey has few answers
    the team lost the match
    plan the route for the bike tour
    the battery drains too fast
    a neighbour complains about noise
    collect feedback after the workshop
    the recipe needs more salt
    sort the papers for the tax return
    the shipment is missing two boxes
    clean the camera lens
    the elevator is stuck between floors
    schedule a visit to the dentist
    the build takes forty minutes
    a patient cannot sleep
    the server room is too warm
    tune the guitar
    the lawn has brown spots
    read the chapter about photosynthesis
    two people want the same desk
    the map shows the wrong street
    the orchestra needs a new conductor
    count the stock in the warehouse
    check the spelling of the headline
    the dog refuses to eat
    the loan application was rejected
    a student did not hand in the essay
    unusual traffic on the network
    the projector shows no picture
    choose a font for the poster
    a bird flew into the window
    the test fails only sometimes
    repair the zipper of the jacket
    the flight was overbooked
    vote on the budget
    the disk is almost full
    the soil is too dry
    the guest wants a quieter room
    update the list of members
    the engine does not start
    the price went up by ten percent
    a column of the table is empty
    the museum is closed on Mondays
    explain fractions to a class
    the robot arm stopped
    someone forgot the key
    the certificate is about to expire
    the river rose overnight
    the order was sent twice
    record a new episode of the podcast
    the court set a date
    an email bounced
    the measurement is off by a little
    find the source of the quote
    the pipeline leaks
    the queue is longer than usual
    rehearse the second act
    the chess game ended in a draw
    an account was locked
    the paint has not dried
    the harvest begins early
    the file cannot be opened
    carry the boxes to the second floor
    the satellite sends no signal
    a deadline was missed
    the knee hurts after running
    the label fell off the bottle
    compute the average of the series
    the vote was close
    the door does not close properly
    the model predicts rain
    the sample was contaminated
    the playlist is too short
    """.strip().splitlines()
)
