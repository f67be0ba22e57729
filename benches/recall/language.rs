//! The words of users in five languages: wishes without an identifier in them, the same in other words, and small talk.

/// English, German, Vietnamese, Chinese, Arabic.
pub(crate) const LANGUAGES: [&str; 5] = ["en", "de", "vi", "zh", "ar"];

/// A wish as a user says it, as a summariser puts it, and the words under which a model looks for it.
pub(crate) struct Wish {
    pub(crate) said: [&'static str; 5],
    pub(crate) put: [&'static str; 5],
    pub(crate) asked: [&'static str; 5],
}

pub(crate) const WISHES: [Wish; 6] = [
    Wish {
        said: [
            "Everything goes through a pull request, nobody pushes to the main branch by hand.",
            "Alles läuft über Pull-Requests, niemand schiebt von Hand auf den Hauptzweig.",
            "Mọi thay đổi phải qua pull request, không ai được đẩy thẳng lên nhánh chính.",
            "所有改动都要走合并请求，谁也不许直接推到主分支。",
            "كل تغيير يمر عبر طلب دمج ولا أحد يدفع مباشرة إلى الفرع الرئيسي.",
        ],
        put: [
            "No direct commits to master; only reviewed PRs.",
            "Keine direkten Commits auf master, nur geprüfte PRs.",
            "Không commit trực tiếp vào master, chỉ dùng PR đã duyệt.",
            "禁止直接提交 master，只接受评审过的 PR。",
            "ممنوع الإيداع المباشر في master، فقط عبر PR بعد المراجعة.",
        ],
        asked: [
            "pull request main branch",
            "Pull-Requests Hauptzweig",
            "pull request nhánh chính",
            "合并请求 主分支",
            "طلب دمج الفرع الرئيسي",
        ],
    },
    Wish {
        said: [
            "It must still run on the customer's old interpreter, which is 3.8.",
            "Es muss noch auf dem alten Interpreter des Kunden laufen, das ist 3.8.",
            "Nó vẫn phải chạy được trên trình thông dịch cũ của khách hàng, bản 3.8.",
            "它还必须能在客户那台旧解释器上运行，也就是 3.8。",
            "يجب أن يعمل على المفسر القديم لدى العميل وهو 3.8.",
        ],
        put: [
            "Stay compatible with Python 3.8.",
            "Mit Python 3.8 kompatibel bleiben.",
            "Giữ tương thích với Python 3.8.",
            "保持与 Python 3.8 兼容。",
            "حافظ على التوافق مع Python 3.8.",
        ],
        asked: [
            "old interpreter customer",
            "alten Interpreter Kunden",
            "trình thông dịch cũ khách hàng",
            "客户 旧解释器",
            "المفسر القديم العميل",
        ],
    },
    Wish {
        said: [
            "The reviewers hate short names like x or i, so write them out.",
            "Die Prüfer hassen kurze Namen wie x oder i, also schreib sie aus.",
            "Người duyệt ghét những tên ngắn như x hay i, hãy viết đầy đủ.",
            "审查的人讨厌 x 或 i 这样的短名字，请写完整。",
            "المراجعون يكرهون الأسماء القصيرة مثل x أو i فاكتبها كاملة.",
        ],
        put: [
            "Use descriptive variable names.",
            "Aussagekräftige Variablennamen verwenden.",
            "Dùng tên biến có nghĩa.",
            "使用有含义的变量名。",
            "استخدم أسماء متغيرات واضحة.",
        ],
        asked: [
            "reviewers short names",
            "Prüfer kurze Namen",
            "người duyệt tên ngắn",
            "审查 短名字",
            "المراجعون الأسماء القصيرة",
        ],
    },
    Wish {
        said: [
            "Do not pull in anything under the GPL, the lawyers would stop the release.",
            "Zieh nichts unter der GPL herein, die Juristen würden die Auslieferung stoppen.",
            "Đừng kéo vào thứ gì theo GPL, luật sư sẽ chặn bản phát hành.",
            "不要引入任何 GPL 的东西，法务会叫停发布。",
            "لا تضف أي شيء برخصة GPL، سيوقف المحامون الإصدار.",
        ],
        put: [
            "Permissive licences alone are allowed for new dependencies.",
            "Neue Abhängigkeiten nur mit freizügiger Lizenz.",
            "Phụ thuộc mới chỉ được dùng giấy phép thoáng.",
            "新依赖只能用宽松许可证。",
            "يُسمح فقط بالتراخيص المتساهلة للتبعيات الجديدة.",
        ],
        asked: ["GPL lawyers", "GPL Juristen", "GPL luật sư", "GPL 法务", "GPL المحامون"],
    },
    Wish {
        said: [
            "A customer's phone number must never stand in a log.",
            "Die Telefonnummer eines Kunden darf nie in einem Protokoll stehen.",
            "Số điện thoại của khách không bao giờ được nằm trong nhật ký.",
            "客户的电话号码绝不能出现在日志里。",
            "لا يجوز أبدا أن يظهر رقم هاتف العميل في السجل.",
        ],
        put: [
            "Redact personal data before logging.",
            "Personenbezogene Daten vor dem Loggen schwärzen.",
            "Che dữ liệu cá nhân trước khi ghi log.",
            "写日志前要脱敏个人数据。",
            "احجب البيانات الشخصية قبل التسجيل.",
        ],
        asked: [
            "phone number log",
            "Telefonnummer Protokoll",
            "số điện thoại nhật ký",
            "电话号码 日志",
            "رقم هاتف السجل",
        ],
    },
    Wish {
        said: [
            "It has to be out by Friday noon, later the bank lets nobody in.",
            "Es muss bis Freitag Mittag draußen sein, danach lässt die Bank niemanden mehr hinein.",
            "Phải xong trước trưa thứ sáu, sau đó ngân hàng không cho ai vào nữa.",
            "必须在星期五中午之前上线，之后银行就不让任何人进了。",
            "يجب أن يصدر قبل ظهر الجمعة، بعد ذلك لا يسمح البنك لأحد بالدخول.",
        ],
        put: [
            "Deadline: Friday 12:00.",
            "Frist: Freitag 12 Uhr.",
            "Hạn chót: 12 giờ thứ sáu.",
            "截止时间：周五 12 点。",
            "الموعد النهائي: الجمعة 12:00.",
        ],
        asked: [
            "Friday noon bank",
            "Freitag Mittag Bank",
            "trưa thứ sáu ngân hàng",
            "星期五中午 银行",
            "ظهر الجمعة البنك",
        ],
    },
];

/// `{s}` is the subject, `{k}` the key.
pub(crate) const CONSTRAINT: [&str; 5] = [
    "For the {s}, never touch `{k}`.",
    "Beim {s} niemals `{k}` anfassen.",
    "Với {s}, tuyệt đối không động vào `{k}`.",
    "关于 {s}，绝对不要碰 `{k}`。",
    "بالنسبة إلى {s} لا تلمس `{k}` أبدا.",
];

/// The sentences of [`CONSTRAINT`] in the words of a summariser.
pub(crate) const CONSTRAINT_PUT: [&str; 5] = [
    "`{k}` is off limits ({s}).",
    "`{k}` ist tabu ({s}).",
    "`{k}` là vùng cấm ({s}).",
    "`{k}` 属于禁区（{s}）。",
    "`{k}` منطقة محظورة ({s}).",
];

pub(crate) const PICTURE: [&str; 5] = [
    "This is how the {s} looks now, see the picture.",
    "So sieht der {s} jetzt aus, siehe das Bild.",
    "Đây là {s} bây giờ, xem hình.",
    "这是 {s} 现在的样子，请看图片。",
    "هكذا يبدو {s} الآن، انظر الصورة.",
];

/// `{n}` is a number, so that no two sentences are alike.
pub(crate) const TALK: [[&str; 5]; 5] = [
    [
        "Yesterday meeting {n} went on for two hours and nobody took notes.",
        "By the way, ticket {n} is somebody else's and can wait.",
        "I had coffee with team {n}, they are in the middle of a move.",
        "Sorry for the long message, train {n} has no network for the next stops.",
        "In the old days, release {n} I think, this was all done by hand.",
    ],
    [
        "Gestern dauerte die Besprechung {n} zwei Stunden, und niemand schrieb mit.",
        "Übrigens gehört das Ticket {n} jemand anderem und kann warten.",
        "Ich war mit Team {n} Kaffee trinken, die ziehen gerade um.",
        "Entschuldige die lange Nachricht, Zug {n} hat gleich kein Netz mehr.",
        "Früher, ich glaube in Version {n}, ging das alles von Hand.",
    ],
    [
        "Hôm qua cuộc họp {n} kéo dài hai tiếng mà không ai ghi chép.",
        "Nhân tiện, phiếu {n} là của người khác và có thể chờ.",
        "Tôi uống cà phê với nhóm {n}, họ đang chuyển văn phòng.",
        "Xin lỗi vì tin nhắn dài, tàu {n} sắp mất sóng.",
        "Ngày xưa, hình như bản {n}, mọi thứ đều làm bằng tay.",
    ],
    [
        "昨天第 {n} 次会议开了两个小时，没有人做记录。",
        "顺便说一下，工单 {n} 是别人的，可以等。",
        "我和第 {n} 组喝了咖啡，他们正在搬家。",
        "抱歉消息太长，{n} 次列车马上没有信号了。",
        "以前，好像是 {n} 版，这些都是手工做的。",
    ],
    [
        "أمس استمر الاجتماع {n} ساعتين ولم يكتب أحد شيئا.",
        "بالمناسبة، التذكرة {n} لشخص آخر ويمكنها الانتظار.",
        "شربت القهوة مع الفريق {n} وهم ينتقلون الآن.",
        "آسف على الرسالة الطويلة، القطار {n} بلا شبكة قريبا.",
        "قديما، أظن في الإصدار {n}، كان كل هذا يدويا.",
    ],
];

/// A template of this language with its holes filled.
pub(crate) fn filled(template: &str, subject: &str, key: &str) -> String {
    template.replace("{s}", subject).replace("{k}", key)
}
