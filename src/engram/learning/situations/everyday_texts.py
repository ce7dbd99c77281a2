"""Short everyday texts on unrelated topics: the reference for how similar texts are that have nothing in common.

An embedder may find all texts similar in a script it hardly knows, so the commonest scripts are included.
"""

from __future__ import annotations

from engram.model import Clean

VERSION = 3
"""Increased when the texts change, or what is stored of them."""


def _lines(text: str) -> tuple[Clean, ...]:
    return tuple(Clean(line.strip()) for line in text.strip().splitlines())


_LATIN = _lines(
    """
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
    """
)
_CYRILLIC = _lines(
    """
    полить цветы на балконе
    в принтере закончился тонер
    поезд сегодня утром опоздал
    клиент спрашивает о часах работы
    в счёте указан неверный адрес
    собрание перенесли на вторник
    у ребёнка температура
    сайт медленно загружается
    чемодан не прибыл
    нужно покрасить стену на кухне
    суду назначили дату заседания
    собака отказывается есть
    цена выросла на десять процентов
    сборка длится сорок минут
    записаться к стоматологу
    урожай начинается рано
    """
)
_HAN = _lines(
    """
    给阳台上的花浇水
    打印机没有墨粉了
    今天早上火车晚点
    顾客询问营业时间
    发票上的地址写错了
    会议改到了星期二
    孩子发烧了
    网站加载很慢
    行李箱没有到
    把厨房的墙刷一遍
    法院定了开庭日期
    狗不肯吃东西
    价格上涨了百分之十
    构建需要四十分钟
    预约看牙医
    今年收获得早
    """
)
_KANA = _lines(
    """
    ベランダの花に水をやる
    プリンターのトナーが切れた
    今朝は電車が遅れた
    お客様が営業時間を尋ねている
    請求書の住所が間違っている
    会議は火曜日に変更された
    子どもに熱がある
    サイトの表示が遅い
    スーツケースが届かなかった
    台所の壁を塗る
    裁判の日程が決まった
    犬がご飯を食べない
    値段が一割上がった
    ビルドに四十分かかる
    歯医者を予約する
    今年は収穫が早い
    """
)
_HANGUL = _lines(
    """
    발코니의 꽃에 물을 준다
    프린터 토너가 떨어졌다
    오늘 아침 기차가 늦었다
    고객이 영업 시간을 묻는다
    청구서의 주소가 틀렸다
    회의가 화요일로 옮겨졌다
    아이가 열이 난다
    웹사이트가 느리게 열린다
    여행 가방이 도착하지 않았다
    부엌 벽을 칠한다
    재판 날짜가 정해졌다
    개가 밥을 먹지 않는다
    가격이 십 퍼센트 올랐다
    빌드에 사십 분이 걸린다
    치과 예약을 한다
    올해는 수확이 빠르다
    """
)
_ARABIC = _lines(
    """
    سقي الزهور في الشرفة
    نفد حبر الطابعة
    تأخر القطار هذا الصباح
    يسأل زبون عن ساعات العمل
    العنوان في الفاتورة خاطئ
    تم نقل الاجتماع إلى يوم الثلاثاء
    الطفل مصاب بالحمى
    الموقع بطيء في التحميل
    لم تصل الحقيبة
    طلاء جدار المطبخ
    حددت المحكمة موعد الجلسة
    الكلب يرفض الأكل
    ارتفع السعر بنسبة عشرة في المئة
    يستغرق البناء أربعين دقيقة
    حجز موعد عند طبيب الأسنان
    يبدأ الحصاد مبكرا
    """
)
_DEVANAGARI = _lines(
    """
    बालकनी के पौधों को पानी देना
    प्रिंटर का टोनर खत्म हो गया
    आज सुबह ट्रेन देर से आई
    ग्राहक खुलने का समय पूछ रहा है
    बिल पर पता गलत है
    बैठक मंगलवार को कर दी गई
    बच्चे को बुखार है
    वेबसाइट धीरे खुलती है
    सूटकेस नहीं पहुँचा
    रसोई की दीवार रंगना
    अदालत ने तारीख तय की
    कुत्ता खाना नहीं खाता
    कीमत दस प्रतिशत बढ़ गई
    बिल्ड में चालीस मिनट लगते हैं
    दंत चिकित्सक से समय लेना
    फसल जल्दी शुरू होती है
    """
)
TEXTS: tuple[tuple[Clean, ...], ...] = (_LATIN, _CYRILLIC, _HAN, _KANA, _HANGUL, _ARABIC, _DEVANAGARI)
"""The texts of each script."""
